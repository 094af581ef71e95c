"""Finds in which precision each tensor of a reference was computed, whatever dtype it has in the end.

`torch.matmul(h, w).float()` of half precision rounds every number to half precision: a cast to a wider dtype adds no
digits. A kernel that keeps its float32 sums is nearer to the truth than that reference, and one that rounds them lands
on the other side of a rounding now and then. So tolerances follow the dtype of the last arithmetic, not that of a cast
after it. Inputs have no rounding: `h.float() @ w.float()` is computed in float32.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.utils._pytree import tree_flatten

from warpsmith.evaluator.correctness.rounding_noise import CONSTANTS, NEVER_ROUND
from warpsmith.evaluator.operator_mode import OperatorMode, operator_name

NARROWEST: Final = 2
"""Bytes of the narrowest dtype that computes: fp8 is only stored."""


@dataclass(frozen=True)
class Precision:
    """How numbers were computed.

    Attributes:
        last: dtype of the last arithmetic.
        narrowest: bytes per element of the narrowest arithmetic that they come from.
    """

    last: torch.dtype
    narrowest: int


class PrecisionFinder(OperatorMode):
    """Context of a run that notes the precision of each real tensor that it computes.

    Args:
        given: dtypes of inputs, parameters and buffers. A cast to a floating dtype narrower than all of these belongs
            to the function, as in fake quantization, and excuses no other roundings.
    """

    def __init__(self, given: Iterable[torch.dtype]) -> None:
        super().__init__()
        widths = [dtype.itemsize for dtype in given if dtype.is_floating_point]
        self._least = max(NARROWEST, min(widths, default=torch.float64.itemsize))
        # By memory. What an operator makes replaces what was there, so that memory can be used again.
        self._found: dict[int, Precision] = {}

    def precision(self, tensor: torch.Tensor) -> Precision:
        """Return how a tensor was computed; no dtype is wider than its own, which an input has."""
        own = Precision(tensor.dtype, tensor.dtype.itemsize)
        found = self._found.get(_memory(tensor), own)
        last = found.last if found.last.itemsize < tensor.dtype.itemsize else tensor.dtype
        return Precision(last, min(found.narrowest, tensor.dtype.itemsize))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.is_view:
            return result
        name, given = operator_name(func), list(_floating([args, kwargs]))
        made = [*_floating(result), *_written(func, args)]
        # Of all before any is noted: an operator that works in place is given what it writes.
        found = [(_memory(one), self._precision(name, given, one.dtype)) for one in made]
        for memory, precision in found:
            if precision is None:
                self._found.pop(memory, None)
            else:
                self._found[memory] = precision
        return result

    def _precision(self, name: str, given: list[torch.Tensor], dtype: torch.dtype) -> Precision | None:
        """Return the precision of a result; None if it has no rounding."""
        before = [self._found[_memory(one)] for one in given if _memory(one) in self._found]
        narrowest = min((one.narrowest for one in before), default=dtype.itemsize)
        if name in CONSTANTS or not given:
            return None
        narrowed = any(dtype.itemsize < one.dtype.itemsize for one in given) and dtype.itemsize >= self._least
        if name not in NEVER_ROUND or narrowed:
            return Precision(dtype, max(NARROWEST, min(narrowest, dtype.itemsize)))
        if not before:
            return None
        # The finest of what it selects from, which may be inputs too.
        inputs = [one.dtype for one in given if _memory(one) not in self._found]
        last = max([*(one.last for one in before), *inputs], key=lambda one: one.itemsize)
        return Precision(last, narrowest)


def _written(func: Any, args: tuple[Any, ...]) -> Iterator[torch.Tensor]:
    """Yield the floating tensors that an operator writes to."""
    for argument, value in zip(func._schema.arguments, args, strict=False):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield from _floating(value)


def _floating(values: Any) -> Iterator[torch.Tensor]:
    return (one for one in tree_flatten(values)[0] if isinstance(one, torch.Tensor) and one.is_floating_point())


def _memory(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
