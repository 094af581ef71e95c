"""Whether an output agrees with the expected one, and where it does not. Runs in the judge, on private copies."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch

from warpsmith.evaluator import arenas, nearness

RELATIVE: Final[dict[str, float]] = {
    "float64": 1e-9,
    "float32": 1e-4,
    "float16": 5e-3,
    "bfloat16": 2e-2,
    "float8_e4m3fn": 1e-1,
    "float8_e5m2": 2e-1,
    "float8_e4m3fnuz": 1e-1,
    "float8_e5m2fnuz": 2e-1,
    "complex32": 5e-3,
    "complex64": 1e-4,
    "complex128": 1e-9,
}
"""Relative tolerance by dtype. Float32 is KernelBench's; float16 takes half of its 1e-2, since the scale is exact."""

EPSILON: Final[dict[str, float]] = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
MAX_RELATIVE: Final = {"float32": 1e-3, "float64": 1e-6}
REFERENCE_ERROR_FACTOR: Final = 4.0
ABSOLUTE_FLOOR: Final = 1e-12
SCALE_QUANTILE: Final = 0.25
SAMPLED: Final = 1 << 20
"""Elements, evenly spread, from which the scale of a larger output is taken: ranking all of them takes seconds."""
LARGE: Final = 1 << 22
"""Elements from which on an output is first looked at for being the reference's own, bit for bit."""
PART: Final = 1 << 26
"""Elements that are compared at once; their fp64 forms and what is computed from them take some gigabytes."""


def prepare(device: torch.device) -> None:
    """Load on a GPU what comparisons of the commonest dtypes take, once for a process.

    Torch loads each of its kernels when that is first called, which took the first evaluation some tenths of a second.
    """
    nearness.prepare(device)
    for name, count in itertools.product(("float32", "float16", "bfloat16"), (4, LARGE + 1)):
        value = torch.linspace(1.0, 2.0, count, dtype=arenas.TORCH_DTYPES[name], device=device)
        for got, exact in itertools.product((value, value + 1.0), (None, value.double())):
            agrees(got, Expected(value, exact), 1.0)


@dataclass(frozen=True)
class Expected:
    """One expected tensor: the reference's own result, and the same from a run in fp64 where there is one."""

    value: torch.Tensor
    exact: torch.Tensor | None


@dataclass(frozen=True)
class Comparison:
    """How one output compares. `where` and the two values belong to the worst element; None if all agree."""

    ok: bool
    max_abs_error: float = 0.0
    mismatched: int = 0
    total: int = 0
    where: tuple[int, ...] | None = None
    expected: float | None = None
    got: float | None = None

    @property
    def message(self) -> str:
        """What is wrong, for people; empty where nothing is."""
        if self.ok or self.where is None:
            return ""
        return (
            f"{self.mismatched} of {self.total} elements ({self.mismatched_fraction:.2%}) are wrong; "
            f"the worst is at index {list(self.where)}: expected {self.expected:.7g}, got {self.got:.7g}"
        )

    @property
    def mismatched_fraction(self) -> float:
        return self.mismatched / self.total if self.total else 0.0


def tolerance(expected: Expected, reduction: float) -> tuple[float, float]:
    """Return (relative, absolute) tolerance of one expected tensor.

    The relative part depends on the dtype and grows with the square root of the reduction length, as rounding errors
    of a sum do. The absolute part is that share of the tensor's scale, plus four times the reference's own distance
    from its fp64 run where the relative part does not cover it: a result near zero by cancellation may be off by what
    its terms may be off.

    Args:
        expected: the reference's result.
        reduction: how many input elements meet in one output element, 1 or more.
    """
    return _tolerance(arenas.NAMES[expected.value.dtype], _known(expected), reduction)


def _tolerance(name: str, known: "_Known", reduction: float) -> tuple[float, float]:
    relative = _relative(name, reduction)
    return relative, float(_absolute(name, known, relative))


def _relative(name: str, reduction: float) -> float:
    relative = RELATIVE.get(name, 0.0)
    grown = 2.0 * EPSILON.get(name, 0.0) * math.sqrt(max(reduction, 1.0))
    return max(relative, min(grown, MAX_RELATIVE.get(name, relative)))


def _absolute(name: str, known: "_Known", relative: float) -> torch.Tensor:
    """Return the absolute part: that of the scale, and the reference's own error. Does not wait for a device."""
    own = REFERENCE_ERROR_FACTOR * known.own_error
    return (_of_scale(name, known.truth, relative) + own).clamp(min=floor(name))


def _of_scale(name: str, truth: torch.Tensor, relative: float) -> torch.Tensor:
    """Return that share of the magnitude that a quarter of the elements other than zero stay below.

    Under a heavy tail the root mean square belongs to few elements, and a share of it is more than most others are. It
    is the most that is returned, and four roundings of a number near one, as in log(1 + exp(x)), the least below it.
    """
    some = truth.flatten()[:: -(-truth.numel() // SAMPLED)]
    finite = torch.isfinite(some)
    counted = finite & (some != 0)
    rank = (SCALE_QUANTILE * counted.sum().double()).ceil().long().clamp(min=1)
    low = _smallest(torch.where(counted, some.abs(), math.inf), rank)
    mean_square = torch.where(finite, some, 0.0).square().sum() / finite.sum()
    found = torch.minimum((relative * low).clamp(min=near_one(name)), relative * mean_square.sqrt())
    return torch.where(counted.any(), found, 0.0)


def _smallest(sizes: torch.Tensor, rank: torch.Tensor) -> torch.Tensor:
    """Return the element of that rank, from one. A GPU sorts a million sooner than it selects one of them."""
    if sizes.device.type == "cpu":
        return sizes.kthvalue(int(rank)).values
    # By `take`: an index that is a tensor without dimensions would be waited for.
    return sizes.sort().values.take(rank - 1)


def near_one(name: str) -> float:
    """Return four roundings of a number near one."""
    return 4 * torch.finfo(arenas.TORCH_DTYPES[name]).eps if name in RELATIVE else 0.0


def floor(name: str) -> float:
    """Return the smallest absolute tolerance of a dtype: 1e-12, or two of its smallest steps where those are larger."""
    if name not in RELATIVE:
        return ABSOLUTE_FLOOR
    limits = torch.finfo(arenas.TORCH_DTYPES[name])
    return max(ABSOLUTE_FLOOR, 2 * limits.tiny * limits.eps)


@dataclass(frozen=True)
class _Known:
    """The best known values as float64, and how far the reference is from them; no device is waited for to find them.

    Attributes:
        truth: those of the fp64 run where it is trusted, else the reference's own.
        own_error: the largest distance of the reference from its fp64 run, over the elements of which four times that
            distance is more than their own relative tolerance. So the error of a large element is no excuse for a
            small one.
        trusts_exact: False where the two runs are so far apart that they did not compute the same thing (a cast or a
            constant of its own dtype inside).
    """

    truth: torch.Tensor
    own_error: torch.Tensor
    trusts_exact: torch.Tensor


def _known(expected: Expected) -> _Known:
    value = _wide(expected.value)
    if expected.exact is None:
        return _Known(value, value.new_zeros(()), torch.ones((), dtype=torch.bool, device=value.device))
    name, exact = arenas.NAMES[expected.value.dtype], _wide(expected.exact)
    both = torch.isfinite(value) & torch.isfinite(exact)
    distance, sizes = torch.where(both, (value - exact).abs(), 0.0), torch.where(both, exact, 0.0)
    scale = (sizes.square().sum() / both.sum()).sqrt().clamp(min=ABSOLUTE_FLOOR)
    trusted = ~(distance.max() > 100 * RELATIVE[name] * scale)
    uncovered = torch.where(REFERENCE_ERROR_FACTOR * distance > RELATIVE[name] * sizes.abs(), distance, 0.0)
    return _Known(torch.where(trusted & both, exact, value), torch.where(trusted, uncovered.max(), 0.0), trusted)


def _truth(value: torch.Tensor, exact: torch.Tensor | None) -> torch.Tensor:
    """Return those of the exact values, already trusted, that are finite in both runs, and else the reference's."""
    if exact is None:
        return value
    return torch.where(torch.isfinite(value) & torch.isfinite(exact), exact, value)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor).double() if tensor.is_complex() else tensor.double()


def compare(got: torch.Tensor, expected: Expected, reduction: float) -> Comparison:
    """Compare one output with the expected tensor of the same dtype and shape.

    NaNs and infinities must stand where the reference has them, with the same sign. Integers and booleans must be
    equal. Floats must be within `tolerance`. A large output is compared part by part, so that its fp64 forms need not
    fit into memory; its tolerance, and whether its fp64 run is trusted, are then those of a part of its elements,
    evenly spread.
    """
    if not got.numel():
        return Comparison(ok=True)
    if not is_approximate(got):
        return _compared(got, expected, lambda part, other: _compare_exactly(part, other.value))
    on_device = got.device.type == "cuda"
    if got.numel() > LARGE and not on_device and arenas.equal(got, expected.value):
        return Comparison(ok=True, total=got.numel())
    if got.numel() <= LARGE and on_device:
        largest = largest_error_if_right(got, expected, reduction)
        if largest is not None:
            return Comparison(ok=True, max_abs_error=largest, total=got.numel() * (2 if got.is_complex() else 1))
    known = _known(_sampled(expected))
    relative, absolute = _tolerance(arenas.NAMES[got.dtype], known, reduction)
    trusted = expected if bool(known.trusts_exact) else Expected(expected.value, None)
    if got.numel() > LARGE and on_device:
        largest = nearness.largest_error_if_near(got, trusted.value, trusted.exact, relative, absolute)
        if largest is not None:
            return Comparison(ok=True, max_abs_error=largest, total=got.numel())
    return _compared(got, trusted, lambda part, other: _compare_floats(part, other, relative, absolute))


def is_approximate(tensor: torch.Tensor) -> bool:
    """Whether the numbers of a tensor are rounded: floats, but no exponents (`float8_e8m0fnu`), which are exact."""
    return arenas.NAMES[tensor.dtype] in RELATIVE


def largest_error_if_right(got: torch.Tensor, expected: Expected, reduction: float) -> float | None:
    """Return the largest error of a small float output that is right, and None for one that is not.

    It says what `compare` says, by the same rules, and waits for a device once, where that one asks it for one number
    after the other; what is wrong is left to that one. NaN where no element is finite.
    """
    name, known = arenas.NAMES[got.dtype], _known(expected)
    value, result = _wide(expected.value), _wide(got)
    relative = _relative(name, reduction)
    error = (result - known.truth).abs()
    near = error <= relative * known.truth.abs() + _absolute(name, known, relative)
    finite = torch.isfinite(error)
    agree = torch.where(torch.isfinite(value), near & torch.isfinite(result), _same_special(result, value))
    largest = torch.where(finite.any(), torch.where(finite, error, 0.0).max(), math.nan)
    right, found = torch.stack([agree.all().double(), largest]).tolist()
    return float(found) if right else None


def agrees(got: torch.Tensor, expected: Expected, reduction: float) -> bool:
    """Whether an output agrees with the expected one; what is wrong is mostly seen from a part of a large one."""
    if got.numel() > LARGE and not compare(*_some(got, expected), reduction).ok:
        return False
    return compare(got, expected, reduction).ok


def _some(got: torch.Tensor, expected: Expected) -> tuple[torch.Tensor, Expected]:
    """Return elements of both, evenly spread."""
    step = -(-got.numel() // SAMPLED)
    exact = None if expected.exact is None else expected.exact.flatten()[::step]
    value = expected.value.flatten()[::step]
    # One number that stands for all elements: to write it out takes as long as to compute a large output.
    one = not any(got.stride())
    return got[(0,) * got.dim()].expand(value.shape) if one else got.flatten()[::step], Expected(value, exact)


def _sampled(expected: Expected) -> Expected:
    """Return every so manieth element of a tensor that is larger than a part, and a smaller one as it is."""
    step = -(-expected.value.numel() // PART)
    if step == 1:
        return expected
    exact = None if expected.exact is None else expected.exact.flatten()[::step]
    return Expected(expected.value.flatten()[::step], exact)


def _compared(
    got: torch.Tensor, expected: Expected, compare_part: Callable[[torch.Tensor, Expected], Comparison]
) -> Comparison:
    """Compare part by part; the result is that of the whole."""
    if got.numel() <= PART:
        return compare_part(got, expected)
    flat, value = got.flatten(), expected.value.flatten()
    exact = None if expected.exact is None else expected.exact.flatten()
    found: Comparison | None = None
    for start in range(0, flat.numel(), PART):
        span = slice(start, start + PART)
        part = compare_part(flat[span], Expected(value[span], None if exact is None else exact[span]))
        found = _placed(part, start, got.shape) if found is None else _merged(found, _placed(part, start, got.shape))
    assert found is not None
    return found


def _placed(part: Comparison, start: int, shape: torch.Size) -> Comparison:
    """Return a part's comparison with its worst element's place in the whole."""
    if part.where is None:
        return part
    first, *component = part.where
    return replace(part, where=(*_unravelled(start + first, shape), *component))


def _unravelled(flat: int, shape: torch.Size) -> tuple[int, ...]:
    """Return an element's index. Torch's own function imports sympy, which takes half a second."""
    return tuple(int(index) for index in np.unravel_index(flat, tuple(shape)))


def _merged(one: Comparison, two: Comparison) -> Comparison:
    """Return what two parts amount to, in their order; an error that no finite value has (NaN) counts for nothing."""
    measured = [part.max_abs_error for part in (one, two) if not math.isnan(part.max_abs_error)]
    return replace(
        max(one, two, key=_badness),
        ok=one.ok and two.ok,
        max_abs_error=max(measured, default=math.nan),
        mismatched=one.mismatched + two.mismatched,
        total=one.total + two.total,
    )


def _badness(part: Comparison) -> float:
    """Return the error of a part's worst element as `_report` orders them: one that is no number is the worst."""
    if part.expected is None or part.got is None:
        return -1.0
    error = abs(part.got - part.expected)
    return math.inf if math.isnan(error) else error


def _compare_floats(got: torch.Tensor, expected: Expected, relative: float, absolute: float) -> Comparison:
    value, result = _wide(expected.value), _wide(got)
    truth = _truth(value, None if expected.exact is None else _wide(expected.exact))
    error = (result - truth).abs()
    agree = error <= relative * truth.abs() + absolute
    finite = torch.isfinite(value)
    agree = torch.where(finite, agree & torch.isfinite(result), _same_special(result, value))
    measured = error[torch.isfinite(error)]
    largest = float(measured.max()) if measured.numel() else math.nan
    return _report(agree, torch.where(torch.isnan(error), torch.inf, error), truth, result, largest)


def _same_special(got: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return (torch.isnan(got) & torch.isnan(value)) | (got == value)


_BITS: Final = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _compare_exactly(got: torch.Tensor, value: torch.Tensor) -> Comparison:
    """Compare bit by bit. Another byte than 0 or 1 in a bool is no bool, and cannot hide."""
    if got.dtype == torch.bool:
        got, value = got.view(torch.uint8), value.view(torch.uint8)
    agree = got.view(_BITS[got.itemsize]) == value.view(_BITS[value.itemsize])
    wide_got, wide_value = got.double(), value.double()
    error = (wide_got - wide_value).abs()
    return _report(agree, error, wide_value, wide_got, float(error.max()))


def _report(
    agree: torch.Tensor, error: torch.Tensor, truth: torch.Tensor, got: torch.Tensor, largest: float
) -> Comparison:
    mismatched = int((~agree).sum())
    if not mismatched:
        return Comparison(ok=True, max_abs_error=largest, total=agree.numel())
    flat = int(torch.where(agree, -1.0, error).flatten().argmax())
    where = _unravelled(flat, agree.shape)
    expected_value, got_value = float(truth.flatten()[flat]), float(got.flatten()[flat])
    return Comparison(False, largest, mismatched, agree.numel(), where, expected_value, got_value)
