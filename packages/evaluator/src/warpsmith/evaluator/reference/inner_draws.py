"""Random numbers that functions of torch draw inside: dropout, Gumbel softmax, the initialisation of a layer.

Such a function is called by the problem as one, and its draws are none of the problem's own calls. Below the functions
are torch's operators, where each random one shows under its own name, whoever calls it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

from warpsmith.evaluator.operator_mode import OperatorMode

Varies = Callable[[str, torch.Tensor, tuple[Any, ...], Mapping[str, Any]], None]
FUSED: Final = "native_dropout"
"""The dropout of a GPU, which returns its result and the mask."""


class InnerDraws(OperatorMode):
    """Context in which the random operators that a function calls are varied.

    Args:
        vary: varies a new tensor in place, given the operator's name, the tensor, and the operator's arguments.
    """

    def __init__(self, vary: Varies) -> None:
        super().__init__()
        self._vary = vary

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if torch.Tag.nondeterministic_seeded in func.tags:
            name = func.overloadpacket.__name__
            if name == FUSED:
                self._vary_fused(result, args)
            elif isinstance(result, torch.Tensor):
                self._vary(name, result, args, kwargs)
        return result

    def _vary_fused(self, result: tuple[torch.Tensor, torch.Tensor], args: tuple[Any, ...]) -> None:
        made, mask = result
        whole, chance = args[0], args[1]
        if 0 < chance < 1 and args[2] is not False:
            self._vary("bernoulli_", mask, (), {})
            made.copy_(whole * mask / (1 - chance))
