"""Counts the floating-point operations of a module's products by dtype, with the formulas of torch's FlopCounterMode.

That mode itself is not used: it adds up over all dtypes, and imports the compiler, which takes seconds.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the operations of each operator that torch has a formula for."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: dict[str, int] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Keep torch from wrapping this for its compiler, which takes seconds to import and is not used here."""
        return False

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
    """Return the operations of one run by the dtype of their operands: a product counts 2 for each multiplication."""
    counter = _Counter()
    with counter:
        run()
    return counter.counts
