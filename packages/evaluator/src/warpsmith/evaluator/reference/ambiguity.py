"""Finds parts of a problem's forward with no unique answer: undefined casts, searches in unsorted numbers, ties.

Casting a floating-point number to an integer is undefined for NaN and out-of-range values: the result differs between
chips and compilers. No candidate can be blamed for an answer that depends on one.
"""

from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

CASTS: Final = frozenset({"to", "type", "type_as", "byte", "char", "short", "int", "long"})
COPIES: Final = frozenset({"copy_"})
RANKINGS: Final = frozenset({"topk", "sort", "argsort", "argmax", "argmin", "kthvalue"})
"""Functions that order numbers; torch specifies no order for equal ones."""
PICKS: Final = frozenset(
    {"max", "min", "cummax", "cummin", "median", "nanmedian", "mode", "max_pool1d", "max_pool2d", "max_pool3d"}
    | {f"{kind}_max_pool{count}d" for kind in ("adaptive", "fractional") for count in (1, 2, 3)}
    | {f"{name}_with_indices" for name in ("max_pool1d", "max_pool2d", "max_pool3d")}
)
"""Functions that can return, besides each number, the index where it was found."""
SEARCHES: Final = {"searchsorted": (0, "sorted_sequence"), "bucketize": (1, "boundaries")}
"""Functions that search in sorted numbers: position and keyword of the argument with these numbers."""


DIMENSION_AFTER_COUNT: Final = frozenset({"topk", "kthvalue"})
WHOLE: Final = frozenset({"argmax", "argmin"})
"""Functions that order all numbers where no dimension is given; others then take the last one."""


def _has_ties(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a ranking compares equal numbers; also true where that is not known."""
    numbers = args[0] if args else kwargs.get("input")
    place = 2 if name in DIMENSION_AFTER_COUNT else 1
    dim = args[place] if len(args) > place else kwargs.get("dim", None if name in WHOLE else -1)
    if not isinstance(numbers, torch.Tensor) or "pool" in name or not (dim is None or type(dim) is int):
        return True
    numbers = numbers.flatten() if dim is None or not numbers.dim() else numbers
    ordered = numbers.sort(dim=-1 if dim is None else dim).values
    return bool((ordered.diff(dim=-1 if dim is None else dim) == 0).any())


class AmbiguityFinder(TorchFunctionMode):
    """Detects casts of floating-point numbers to integers, searches, and rankings.

    Attributes:
        found: whether there was a cast or a search.
        undefined: whether one of them was undefined: a cast of a value out of range, or a search in unsorted numbers.
        ranks: whether numbers were ordered.
        tied: whether some of them were equal.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tied = False
        self.found = False
        self.undefined = False
        self.ranks = False

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name in RANKINGS or (name in PICKS and not isinstance(result, torch.Tensor)):
            self.ranks = True
            self.tied = self.tied or _has_ties(name, args, kwargs)
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
            # float64 cannot represent the largest int64, but it can represent that plus one.
            self.undefined |= not bool(((whole >= range_.min) & (whole < float(range_.max) + 1)).all())

    def _note_search(self, numbers: Any) -> None:
        self.found = True
        if isinstance(numbers, torch.Tensor) and numbers.dim():
            self.undefined |= not bool((numbers.diff(dim=-1) >= 0).all())
