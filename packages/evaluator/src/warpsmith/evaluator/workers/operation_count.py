"""Counts the floating-point operations of a module's products by dtype, with the formulas of torch's FlopCounterMode.

The mode itself is not used: it sums over all dtypes, and imports the compiler, which takes seconds.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from warpsmith.evaluator.operator_mode import OperatorMode


class _Counter(OperatorMode):
    """Adds up the operations of each operator that torch has a formula for."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        result = func(*args, **named)
        formula = flop_registry.get(func.overloadpacket)
        if formula is not None:
            name = _dtype_of([*args, *named.values()])
            self.counts[name] = self.counts.get(name, 0) + int(formula(*args, **named, out_val=result))
        return result


def _dtype_of(arguments: list[Any]) -> str:
    """Return the dtype of the first floating tensor, or of the first tensor if none is floating."""
    kinds = [str(tensor.dtype).removeprefix("torch.") for tensor in _tensors(arguments)]
    return next((kind for kind in kinds if "float" in kind), kinds[0] if kinds else "")


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    match value:
        case torch.Tensor():
            yield value
        case list() | tuple():
            for item in value:
                yield from _tensors(item)


def operations_of(run: Callable[[], Any]) -> dict[str, int]:
    """Return the operations of one run by operand dtype: a product counts 2 for each multiplication."""
    counter = _Counter()
    with counter:
        run()
    return counter.counts
