"""Finds what of a problem's forward has no one answer: undefined casts, searches in no order, ranks of equal numbers.

A cast of a floating number to integers is undefined for NaN, and for what the integers do not reach: each chip and each
compiler has a value of its own. An answer that rests on one can be held against nobody.
"""

from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

CASTS: Final = frozenset({"to", "type", "type_as", "byte", "char", "short", "int", "long"})
COPIES: Final = frozenset({"copy_"})
RANKINGS: Final = frozenset({"topk", "sort", "argsort", "argmax", "argmin", "kthvalue"})
"""What puts numbers in order; torch promises none for equal ones."""
PICKS: Final = frozenset(
    {"max", "min", "cummax", "cummin", "median", "nanmedian", "mode", "max_pool1d", "max_pool2d", "max_pool3d"}
    | {f"{kind}_max_pool{count}d" for kind in ("adaptive", "fractional") for count in (1, 2, 3)}
    | {f"{name}_with_indices" for name in ("max_pool1d", "max_pool2d", "max_pool3d")}
)
"""What says beside each number where it was found, if it is asked to."""
SEARCHES: Final = {"searchsorted": (0, "sorted_sequence"), "bucketize": (1, "boundaries")}
"""What searches in sorted numbers, and where these are given."""


class AmbiguityFinder(TorchFunctionMode):
    """Notes casts of floating numbers to integers, searches, and rankings.

    Attributes:
        found: whether there was a cast or a search.
        undefined: whether one of them was undefined: of what the integers do not reach, or in numbers that are not
            sorted.
        ranks: whether numbers were put in order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found = False
        self.undefined = False
        self.ranks = False

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        self.ranks |= name in RANKINGS or (name in PICKS and not isinstance(result, torch.Tensor))
        if name in CASTS and isinstance(result, torch.Tensor):
            self._note(args[0], result.dtype)
        elif name in COPIES and len(args) > 1 and isinstance(args[1], torch.Tensor):
            self._note(args[1], args[0].dtype)
        elif name in SEARCHES and kwargs.get("sorter") is None:
            place, word = SEARCHES[name]
            self._note_search(args[place] if len(args) > place else kwargs.get(word))
        return result

    def _note(self, source: torch.Tensor, dtype: torch.dtype) -> None:
        integer = not dtype.is_floating_point and not dtype.is_complex and dtype != torch.bool
        if integer and source.is_floating_point():
            self.found = True
            whole, range_ = source.double().trunc(), torch.iinfo(dtype)
            # The largest int64 is no float64, and what follows it is.
            self.undefined |= not bool(((whole >= range_.min) & (whole < float(range_.max) + 1)).all())

    def _note_search(self, numbers: Any) -> None:
        self.found = True
        if isinstance(numbers, torch.Tensor) and numbers.dim():
            self.undefined |= not bool((numbers.diff(dim=-1) >= 0).all())
