"""Finds parts of a problem's forward with no unique answer: undefined casts, unsorted searches, ties, double writes.

Casting a floating-point number to an integer is undefined for NaN and out-of-range values: the result differs between
chips and compilers. If an index names a place twice, any of the writes to it can be the last. `a / b > c` is `a > b *
c` only if b is positive: if b is positive on plain inputs, it must stay so. No candidate can be blamed for an answer
that depends on any of these.
"""

from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

CASTS: Final = frozenset({"to", "type", "type_as", "byte", "char", "short", "int", "long"})
COPIES: Final = frozenset({"copy_"})
RANKINGS: Final = frozenset({"topk", "sort", "argsort", "argmax", "argmin", "kthvalue"})
"""Functions that order numbers."""
TAKE_FIRST: Final = frozenset({"argmax", "argmin", "max", "min"})
"""Functions for which torch specifies which of equal numbers they take: the first. A stable sort keeps their order; the
others specify none."""
PICKS: Final = frozenset(
    {"max", "min", "cummax", "cummin", "median", "nanmedian", "mode"}
    | {
        f"{kind}max_pool{count}d{end}"
        for kind in ("", "adaptive_", "fractional_")
        for count in (1, 2, 3)
        for end in ("", "_with_indices")
    }
)
"""Functions that can return, besides each number, the index where it was found."""
SEARCHES: Final = {"searchsorted": (0, "sorted_sequence"), "bucketize": (1, "boundaries")}
"""Functions that search in sorted numbers: position and keyword of the argument with these numbers."""
SCATTERS: Final = frozenset({"scatter", "scatter_"})
"""Functions that write each number to an index along one dimension."""
INDEX_COPIES: Final = frozenset({"index_copy", "index_copy_"})
INDEX_WRITES: Final = frozenset({"index_put", "index_put_", "__setitem__"})

QUOTIENTS: Final = frozenset({"div", "div_", "divide", "true_divide", "__rdiv__", "__rtruediv__", "reciprocal"})
COMPARISONS: Final = frozenset({"gt", "lt", "ge", "le", "greater", "less", "greater_equal", "less_equal"})
"""Functions that compare numbers; Python's operators are seen under the same names."""
PASSED_ON: Final = frozenset(
    {"__getitem__", "__get__", "view", "reshape", "flatten", "squeeze", "unsqueeze", "transpose", "permute", "t"}
    | {"select", "narrow", "index_select", "gather", "clone", "contiguous"}
    | {"masked_fill", "triu", "tril", "fill_diagonal_"}
)
"""Functions whose result holds numbers of their first argument."""
LEAST_OF_ONE_SIGN: Final = 16
"""Number of divisors of one sign, in one run, from which on it is not chance."""
MOST_KEPT: Final = 1 << 26
"""Elements of quotients that are kept during a run; later ones are not followed."""

DIMENSION_AFTER_COUNT: Final = frozenset({"topk", "kthvalue"})
WHOLE: Final = frozenset({"argmax", "argmin"})
"""Functions that order all numbers if no dimension is given; others then take the last dimension."""


def _has_ties(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a ranking compares equal numbers; also true where that is not known."""
    numbers = args[0] if args else kwargs.get("input")
    place = 2 if name in DIMENSION_AFTER_COUNT else 1
    dim = args[place] if len(args) > place else kwargs.get("dim", None if name in WHOLE else -1)
    pooled = next((count for count in (1, 2, 3) if f"pool{count}d" in name), 0)
    if pooled and isinstance(numbers, torch.Tensor) and numbers.dim() > pooled:
        # A window is a part of the last dimensions.
        numbers, dim = numbers.flatten(-pooled), -1
    if not isinstance(numbers, torch.Tensor) or not (dim is None or type(dim) is int):
        return True
    numbers = numbers.flatten() if dim is None or not numbers.dim() else numbers
    ordered = numbers.sort(dim=-1 if dim is None else dim).values
    return bool((ordered.diff(dim=-1 if dim is None else dim) == 0).any())


def _ranks(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> bool:
    """Whether a call orders numbers whose ties decide the answer.

    Taking the first of equal integers is no accident: `(tokens == mark).int().argmax(-1)` looks for the first mark.
    """
    if not (name in RANKINGS or (name in PICKS and not isinstance(result, torch.Tensor))):
        return False
    numbers = args[0] if args else kwargs.get("input")
    return not (name in TAKE_FIRST and isinstance(numbers, torch.Tensor) and not numbers.is_floating_point())


def _has_nan(numbers: Any) -> bool:
    return isinstance(numbers, torch.Tensor) and numbers.is_floating_point() and bool(numbers.isnan().any())


_INDICES: Final = frozenset({torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8})


def _lands_twice(name: str, dim: Any, index: Any, source: torch.Tensor) -> bool | None:
    """Whether an index names a place of one dimension twice, for different numbers; None if it is not an index."""
    if not isinstance(index, torch.Tensor) or not index.dim() or type(dim) is not int:
        return None
    along = dim if name in SCATTERS else 0
    ordered, order = index.sort(along)
    twice = ordered.diff(dim=along) == 0
    if name in SCATTERS and bool(twice.any()):
        written = source[tuple(slice(size) for size in index.shape)].gather(along, order)
        twice &= written.narrow(along, 1, written.shape[along] - 1) != written.narrow(
            along, 0, written.shape[along] - 1
        )
    return bool(twice.any())


def _writes_twice(given: Any, shape: torch.Size) -> bool | None:
    """Whether indices, one for each of some dimensions, name a place twice; None if none is a tensor of integers."""
    places = given if isinstance(given, tuple | list) else (given,)
    plain = all(isinstance(place, torch.Tensor | int | slice) for place in places)
    indices = [
        # -1 names the last place. If dimensions are added or dropped, their correspondence is not worked out.
        torch.where(place < 0, place + shape[number], place) if plain else place
        for number, place in enumerate(places)
        if isinstance(place, torch.Tensor) and place.dtype in _INDICES
    ]
    if not indices:
        return None
    try:
        named = torch.stack([index.flatten() for index in torch.functional.broadcast_tensors(*indices)])  # type: ignore[no-untyped-call]
    except RuntimeError:
        return None
    return bool(torch.unique(named, dim=1).shape[1] < named.shape[1])


class ComparedQuotients:
    """The quotients that a forward compares with something, by the signs of their divisors.

    Attributes:
        signs: the signs of the divisors: `+`, `-`, or `?` where a tensor of them has several, or a zero.
        count: how many divisors there were.
    """

    def __init__(self) -> None:
        self.signs: set[str] = set()
        self.count = 0
        self._left = MOST_KEPT
        # The tensors are kept, so that no new one gets the id of a deleted one.
        self._quotients: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def note(self, name: str, args: tuple[Any, ...], result: Any) -> None:
        """Note a call of a function of torch."""
        given = [one for one in args if isinstance(one, torch.Tensor)]
        if name in QUOTIENTS and given and isinstance(result, torch.Tensor):
            divisor = args[1] if name not in {"reciprocal", "__rdiv__", "__rtruediv__"} and len(args) > 1 else args[0]
            if isinstance(divisor, torch.Tensor) and divisor.is_floating_point():
                self._keep(result, divisor)
        elif name in PASSED_ON and isinstance(result, torch.Tensor) and given and id(given[0]) in self._quotients:
            self._keep(result, self._quotients[id(given[0])][1])
        elif name in COMPARISONS:
            for one in given:
                if id(one) in self._quotients:
                    self._compared(self._quotients[id(one)][1])

    def _keep(self, quotient: torch.Tensor, divisor: torch.Tensor) -> None:
        self._left -= quotient.numel()
        if self._left > 0:
            self._quotients[id(quotient)] = quotient, divisor

    def _compared(self, divisor: torch.Tensor) -> None:
        self.count += divisor.numel()
        low, high = (float(one) for one in divisor.aminmax()) if divisor.numel() else (1.0, 1.0)
        self.signs.add("+" if low > 0 else "-" if high < 0 else "?")

    @property
    def of_one_sign(self) -> str:
        """The sign of all divisors; an empty string if they differ or it may be chance."""
        sign = "".join(self.signs)
        return sign if sign in {"+", "-"} and self.count >= LEAST_OF_ONE_SIGN else ""


class AmbiguityFinder(TorchFunctionMode):
    """Detects casts of floating-point numbers to integers, searches, rankings, writes by index, compared quotients.

    Args:
        sign: the sign that all divisors of compared quotients have on plain inputs; empty if they have several.

    Attributes:
        found: whether there was a cast, a search, a write by index or a compared quotient.
        undefined: whether one of them was undefined: a cast of a value out of range, a search in unsorted numbers,
            different writes to one place, a divisor of another sign than on plain inputs.
        ranks: whether numbers were ordered.
        tied: whether some of them were equal.
        unordered: whether the ordering function specifies no order of equal ones.
        of_nan: whether NaN were among them. Their index does not show that the reference left its domain.
    """

    def __init__(self, sign: str = "") -> None:
        super().__init__()
        self._sign = sign
        self.quotients = ComparedQuotients()
        self.tied = False
        self.found = False
        self.undefined = False
        self.ranks = False
        self.unordered = False
        self.of_nan = False

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        # What is computed here is not part of the forward that other modes observe.
        with _disable_current_modes():
            self._look_at(getattr(func, "__name__", ""), args, kwargs, result)
        return result

    def _look_at(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Note what a call of a function of torch may leave undefined."""
        self.quotients.note(name, args, result)
        if name in COMPARISONS and self.quotients.signs:
            self.found = True
            self.undefined |= bool(self._sign) and self.quotients.signs != {self._sign}
        if _ranks(name, args, kwargs, result):
            self.ranks = True
            self.tied = self.tied or _has_ties(name, args, kwargs)
            self.of_nan |= _has_nan(args[0] if args else kwargs.get("input"))
            self.unordered |= name not in TAKE_FIRST and not kwargs.get("stable")
        if name in CASTS and isinstance(result, torch.Tensor):
            self._note(args[0], result.dtype)
        elif name in COPIES and len(args) > 1 and isinstance(args[1], torch.Tensor):
            self._note(args[1], args[0].dtype)
        elif name in SEARCHES and kwargs.get("sorter") is None:
            place, word = SEARCHES[name]
            self._note_search(args[place] if len(args) > place else kwargs.get(word))
        elif name in SCATTERS | INDEX_COPIES | INDEX_WRITES and not (kwargs.get("reduce") or kwargs.get("accumulate")):
            self._note_writes(name, args, kwargs)

    def _note_writes(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note a write by index. One number written to all places is the same in any order of writes."""
        words = ("dim", "index", "indices", "src", "source", "values")
        most = 3 if name in INDEX_WRITES else 4
        if name in INDEX_WRITES and any(args[most:]):
            return
        given = [*args[1:most], *(kwargs[word] for word in words if word in kwargs)]
        source = given[-1] if len(given) > 1 else None
        if not isinstance(source, torch.Tensor) or source.numel() < 2:
            return
        twice = (
            _writes_twice(given[0], args[0].shape)
            if name in INDEX_WRITES
            else _lands_twice(name, given[0], given[1], source)
        )
        self.found |= twice is not None
        self.undefined |= bool(twice)

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
