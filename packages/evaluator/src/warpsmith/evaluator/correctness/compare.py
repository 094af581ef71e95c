"""Whether an output agrees with the expected one, and where it does not. Runs in the judge, on private copies."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch

from warpsmith.evaluator.correctness import compare_gpu
from warpsmith.evaluator.devices import tensor_views

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
"""The largest relative tolerance by dtype. Float32 is KernelBench's; float16 takes half of its 1e-2."""
FAR_RELATIVE: Final = 1e-3
"""In single precision on inputs that are far: of the exponential of a product of two such, no more is left."""
TF32_RELATIVE: Final = 2e-3
"""Of products in TF32: chips cut thirteen bits off each operand, always towards zero."""

EPSILON: Final[dict[str, float]] = {"float32": 2.0**-23, "complex64": 2.0**-23}
ELEMENTWISE_ROUNDINGS: Final = 512
"""Roundings of single precision that an element may be off where nothing is summed: approximate functions of a chip."""
SPREAD_FACTOR: Final = 2.0
"""How far an element may be off, in units of how far the perturbed runs are (`perturbation.py`)."""
OWN_FACTOR: Final = 2.0
"""The same in units of the reference's own distance from its fp64 run."""
ALONE_FACTOR: Final = 4.0
"""The same where there is no perturbed run."""
ROUNDINGS_OF_ONE: Final = 32
"""Roundings of a number near one that an element may be off in float32 and float64: x * tanh(log(1 + exp(x))) is off by
some x of them. What is half precision is computed in float32, and is off by four."""
MOST_PEAK: Final = 256.0
"""Up to which the largest input adds a rounding of its own: x - log(sum(exp(x))) is off by one of the largest x."""
ABSOLUTE_FLOOR: Final = 1e-12
SCALE_QUANTILE: Final = 0.25
LEAST_SLICE: Final = 16
"""Elements from which on a slice (a column, a channel) has a scale of its own."""
MOST_OTHER: Final = 1 / 16
"""Share of elements far from the fp64 run from which on that run computed something else."""
MOST_FLIPS: Final = 0.25
"""Share of integers that may differ since they flip in perturbed runs; where more do, none may."""
LEAST_DECIDABLE: Final = 0.5
"""Share of elements that a set must bind for it to be evidence."""
SAMPLED: Final = 1 << 20
"""Elements, evenly spread, from which a larger output's scale is taken, and whether its fp64 run is trusted."""
FEW: Final = 1 << 16
"""Elements, evenly spread, that tell whether an fp64 run is trusted, and how many elements are decidable."""
LARGE: Final = 1 << 22
"""Elements from which on an output is first looked at for being the reference's own, bit for bit."""
PART: Final = 1 << 26
"""Elements that are compared at once; their fp64 forms and what is computed from them take some gigabytes."""


def prepare(device: torch.device) -> None:
    """Load on a GPU what comparisons of the commonest dtypes take, once for a process.

    Torch loads each of its kernels when that is first called, which took the first evaluation some tenths of a second.
    """
    compare_gpu.prepare(device)
    for name, count in itertools.product(("float32", "float16", "bfloat16"), (4, LARGE + 1)):
        value = torch.linspace(1.0, 2.0, count, dtype=tensor_views.TORCH_DTYPES[name], device=device)
        spread = torch.zeros(count, device=device)
        for got, exact in itertools.product((value, value + 1.0), (None, value.double())):
            agrees(got, Expected(value, exact, spread), 1.0)


STEADY: Final = 2.0**-6
"""How far a perturbed run may be from another, relative, where none went the other way at a step of the function."""


@dataclass(frozen=True)
class Expected:
    """One expected tensor.

    Attributes:
        value: the reference's own result.
        exact: the same from a run in fp64, where there is one.
        spread: how far runs on perturbed inputs and parameters are from `value` at most, element by element, where
            there are such; real, also of complex numbers.
        tf32: whether products in TF32 made it.
        inputs_scale: mean magnitude of the inputs from which it was made, of the input where that is largest.
        inputs_peak: magnitude of the largest input.
        far: whether some inputs are so far that precision is no matter here: other trials tell of that.
        usual: of each element, what is usual in its row and column on plain inputs, where that is known.
    """

    value: torch.Tensor
    exact: torch.Tensor | None
    spread: torch.Tensor | None = None
    tf32: bool = False
    inputs_scale: float = 1.0
    inputs_peak: float = 0.0
    far: bool = False
    usual: torch.Tensor | None = None

    def changed(self, change: Callable[[torch.Tensor], torch.Tensor]) -> "Expected":
        """Return the same elements of each tensor."""
        exact, spread = (None if one is None else change(one) for one in (self.exact, self.spread))
        return replace(self, value=change(self.value), exact=exact, spread=spread, usual=None)

    @property
    def is_exact(self) -> bool:
        """Whether it is compared with an fp64 run, or needs none. Waits for a device."""
        if not is_approximate(self.value) or not self.value.numel():
            return True
        name = tensor_views.NAMES[self.value.dtype]
        return self.exact is not None and bool(_trusted(self, relative_tolerance(name, 1.0, tf32=self.tf32)))

    @property
    def is_steady(self) -> bool:
        """Whether no perturbed run gave what is another value and not the same one, rounded. Waits for a device."""
        if self.spread is None or not self.spread.numel():
            return True
        if not is_approximate(self.value):
            return not bool(self.spread.any())
        size = tensor_views.computable(self.value).abs().to(self.spread.dtype)
        return bool((self.spread <= STEADY * (size + size.mean())).all())

    @property
    def decidable(self) -> float:
        """Share of its elements whose bound binds them, from 0 to 1: a wrong one is seen. Waits for a device."""
        return _decidable(self)


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


def relative_tolerance(name: str, reduction: float, *, tf32: bool = False) -> float:
    """Return the share of its own magnitude that an element may be off.

    In single precision it grows with the square root of the reduction length, as rounding errors of a sum do, and not
    beyond `RELATIVE`: a sum of a sample of the terms is off by more.

    Args:
        name: the dtype's.
        reduction: how many input elements meet in one output element, 1 or more.
        tf32: whether products in TF32 made it.
    """
    if tf32 and name in EPSILON:
        return TF32_RELATIVE
    most = RELATIVE.get(name, 0.0)
    if name not in EPSILON:
        return most
    return min(most, EPSILON[name] * (ELEMENTWISE_ROUNDINGS + 2 * math.sqrt(max(reduction, 1.0))))


def near_one(name: str) -> float:
    """Return a few roundings of a number near one."""
    if name not in RELATIVE:
        return 0.0
    kind = tensor_views.TORCH_DTYPES[name]
    return (ROUNDINGS_OF_ONE if kind.to_real().itemsize >= 4 else 4) * torch.finfo(kind).eps


def floor(name: str) -> float:
    """Return the smallest absolute tolerance of a dtype: 1e-12, or two of its smallest steps where those are larger."""
    if name not in RELATIVE:
        return ABSOLUTE_FLOOR
    limits = torch.finfo(tensor_views.TORCH_DTYPES[name])
    return max(ABSOLUTE_FLOOR, 2 * limits.tiny * limits.eps)


@dataclass(frozen=True)
class _Limits:
    """What bounds an output's elements beside what is known of each; no device is waited for to find it.

    Attributes:
        relative: share of its own magnitude that an element may be off.
        absolute: what it may be off beside; of one element, or of each.
        trusted: whether the fp64 run computed the same as the own one.
        own_factor: what the own run's distance from it is multiplied with.
    """

    relative: float
    absolute: torch.Tensor
    trusted: torch.Tensor
    own_factor: float

    def bound(self, terms: "_Terms") -> torch.Tensor:
        """Return what each element may be off."""
        bound = self.relative * terms.truth.abs() + self.own_factor * terms.own_error
        return bound + SPREAD_FACTOR * terms.spread + self.absolute


@dataclass(frozen=True)
class _Terms:
    """What is known of each element, in float64; of complex numbers of both parts.

    Attributes:
        value: the reference's own.
        truth: those of the fp64 run that are finite in both runs, where it is trusted, else the own ones.
        own_error: the distance of the own run from a trusted fp64 run.
        spread: that of the perturbed runs from the own one.
    """

    value: torch.Tensor
    truth: torch.Tensor
    own_error: torch.Tensor
    spread: torch.Tensor

    @staticmethod
    def of(expected: Expected, trusted: torch.Tensor | bool) -> "_Terms":
        value, spread = _wide(expected.value), _spread(expected)
        if expected.exact is None:
            return _Terms(value, value, torch.zeros_like(value), spread)
        exact = _wide(expected.exact)
        usable = torch.isfinite(value) & torch.isfinite(exact) & trusted
        return _Terms(value, torch.where(usable, exact, value), torch.where(usable, (value - exact).abs(), 0.0), spread)


def _spread(expected: Expected) -> torch.Tensor:
    if expected.spread is None:
        return torch.zeros((), dtype=torch.float64, device=expected.value.device)
    wide = expected.spread.double()
    return wide[..., None] if expected.value.is_complex() else wide


def _limits(expected: Expected, reduction: float) -> _Limits:
    """Return what bounds a floating tensor that is no larger than a sample."""
    name = tensor_views.NAMES[expected.value.dtype]
    relative = relative_tolerance(name, reduction, tf32=expected.tf32)
    trusted = _trusted(expected, relative)
    truth = _Terms.of(expected, trusted).truth
    scale = _scale(truth, truth.dim() - expected.value.is_complex())
    if expected.usual is not None:
        scale = torch.maximum(scale, expected.usual)
    # What is near one on its way to a small number is off by roundings of one, and of an input by those of the input.
    absolute = near_one(name) * scale.clamp(max=max(1.0, expected.inputs_scale))
    if name in EPSILON:
        absolute = absolute + EPSILON[name] * min(expected.inputs_peak, MOST_PEAK) * scale.clamp(max=1.0)
    if expected.far and name in EPSILON:
        relative, absolute = max(relative, FAR_RELATIVE), torch.maximum(absolute, FAR_RELATIVE * scale)
    if expected.spread is None:
        absolute = torch.minimum(torch.maximum(absolute, relative * _low(truth)), relative * scale)
    factor = ALONE_FACTOR if expected.spread is None else OWN_FACTOR
    return _Limits(relative, absolute.clamp(min=floor(name)), trusted, factor)


def _trusted(expected: Expected, relative: float) -> torch.Tensor:
    """Return whether the fp64 run is near the own one, but for few elements: else it computed something else.

    A cast or a constant of the own dtype inside makes it so. Few that are far are beside a step of the function.
    """
    if expected.exact is None:
        return torch.ones((), dtype=torch.bool, device=expected.value.device)
    some = sampled(expected, FEW, FEW)
    assert some.exact is not None
    value, exact = _wide(some.value), _wide(some.exact)
    both = torch.isfinite(value) & torch.isfinite(exact)
    scale = (torch.where(both, exact, 0.0).square().mean()).sqrt().clamp(min=ABSOLUTE_FLOOR)
    allowed = 100 * relative * torch.maximum(exact.abs(), scale) + SPREAD_FACTOR * _spread(some)
    far = both & ((value - exact).abs() > allowed)
    return far.sum() <= MOST_OTHER * both.sum()


def usual(expected: Expected) -> torch.Tensor | None:
    """Return what is usual in the row and in the column of each element; None of a large tensor or of integers."""
    if not is_approximate(expected.value) or not 0 < expected.value.numel() <= LARGE:
        return None
    truth = _wide(expected.value)
    return _scale(truth, truth.dim() - expected.value.is_complex())


def _scale(truth: torch.Tensor, dims: int) -> torch.Tensor:
    """Return the least mean magnitude of the slices in which an element lies, and of the whole.

    So a column of small numbers beside large ones is bound by what is usual in that column.
    """
    sizes = torch.where(torch.isfinite(truth), truth, 0.0).abs()
    whole = tuple(range(truth.dim()))
    least = _mean(sizes, whole)
    for dim in range(dims):
        if truth.shape[dim] > 1 and truth.numel() // truth.shape[dim] >= LEAST_SLICE:
            least = torch.minimum(least, _mean(sizes, tuple(other for other in whole if other != dim)))
    return least


def _mean(sizes: torch.Tensor, dims: tuple[int, ...]) -> torch.Tensor:
    return sizes.mean(dim=dims, keepdim=True) if dims else sizes


def _low(truth: torch.Tensor) -> torch.Tensor:
    """Return the magnitude that a quarter of the elements other than zero stay below; zero where there are none."""
    sizes = truth.flatten()[:: -(-truth.numel() // SAMPLED)].abs()
    counted = torch.isfinite(sizes) & (sizes != 0)
    rank = (SCALE_QUANTILE * counted.sum().double()).ceil().long().clamp(min=1)
    return torch.where(counted.any(), _smallest(torch.where(counted, sizes, math.inf), rank), 0.0)


def _smallest(sizes: torch.Tensor, rank: torch.Tensor) -> torch.Tensor:
    """Return the element of that rank, from one. A GPU sorts a million sooner than it selects one of them."""
    if sizes.device.type == "cpu":
        return sizes.kthvalue(int(rank)).values
    # By `take`: an index that is a tensor without dimensions would be waited for.
    return sizes.sort().values.take(rank - 1)


def bounds(expected: Expected, reduction: float) -> torch.Tensor:
    """Return what each element of a floating tensor may be off, in float64; of complex numbers each of both parts.

    It is the sum of a share of its own magnitude, of its spread under rounding perturbations, of the own run's
    distance from the fp64 run, and of some roundings of a number near one, or of an input where those are larger, but
    never of more than is usual in its row and in its column, here or on plain inputs. Where there is no spread, the
    last part is a share of what is usual there.
    """
    limits = _limits(sampled(expected), reduction)
    return limits.bound(_Terms.of(expected, limits.trusted)).broadcast_to(_wide(expected.value).shape)


def _decidable(expected: Expected) -> float:
    value = expected.value
    if expected.spread is None or not value.numel():
        return 1.0
    some = sampled(expected, FEW, FEW)
    assert some.spread is not None
    if not is_approximate(value):
        return 1.0 if _flips(some) is None else 1.0 - float((some.spread > 0).double().mean())
    limits = _limits(some, 1.0)
    terms = _Terms.of(some, limits.trusted)
    unknown = SPREAD_FACTOR * terms.spread + limits.own_factor * terms.own_error
    bound = unknown <= torch.maximum(0.5 * terms.truth.abs(), limits.absolute)
    return float(bound.double().mean())


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor).double() if tensor.is_complex() else tensor.double()


def compare(got: torch.Tensor, expected: Expected, reduction: float) -> Comparison:
    """Compare one output with the expected tensor of the same dtype and shape.

    NaNs and infinities must stand where the reference has them, with the same sign. Integers and booleans must be
    equal, but for those that flip between perturbed runs of the reference. Floats must be within `bounds`. A large
    output is compared part by part, so that its fp64 forms need not fit into memory; whether its fp64 run is trusted,
    and its scale, are then those of some of its elements, evenly spread.
    """
    if not got.numel():
        return Comparison(ok=True)
    if not is_approximate(got):
        flips = _flips(sampled(expected)) is not None
        return _compared(got, expected, lambda part, other: _compare_exactly(part, other, flips))
    on_device = got.device.type == "cuda"
    if got.numel() > LARGE and not on_device and tensor_views.equal(got, expected.value):
        return Comparison(ok=True, total=got.numel())
    if got.numel() <= LARGE and on_device:
        largest = largest_error_if_right(got, expected, reduction)
        if largest is not None:
            return Comparison(ok=True, max_abs_error=largest, total=got.numel() * (2 if got.is_complex() else 1))
    limits = _limits(sampled(expected), reduction)
    trusted = expected if bool(limits.trusted) else replace(expected, exact=None)
    if got.numel() > LARGE and on_device:
        largest = _largest_of_many(got, trusted, limits)
        if largest is not None:
            return Comparison(ok=True, max_abs_error=largest, total=got.numel())
    return _compared(got, trusted, lambda part, other: _compare_floats(part, other, limits))


def _largest_of_many(got: torch.Tensor, trusted: Expected, limits: _Limits) -> float | None:
    """Return the largest error of a large output on a GPU, or None where it may be wrong."""
    factors = compare_gpu.Factors(limits.relative, SPREAD_FACTOR, limits.own_factor, float(limits.absolute))
    return compare_gpu.largest_error_if_near(got, trusted.value, trusted.exact, trusted.spread, factors)


def is_approximate(tensor: torch.Tensor) -> bool:
    """Whether the numbers of a tensor are rounded: floats, but no exponents (`float8_e8m0fnu`), which are exact."""
    return tensor_views.NAMES[tensor.dtype] in RELATIVE


def largest_error_if_right(got: torch.Tensor, expected: Expected, reduction: float) -> float | None:
    """Return the largest error of a small float output that is right, and None for one that is not.

    It says what `compare` says, by the same rules, and waits for a device once, where that one asks it for one number
    after the other; what is wrong is left to that one. NaN where no element is finite.
    """
    limits, result = _limits(expected, reduction), _wide(got)
    terms = _Terms.of(expected, limits.trusted)
    error = (result - terms.truth).abs()
    finite = torch.isfinite(error)
    agree = _agree(result, terms, error <= limits.bound(terms))
    largest = torch.where(finite.any(), torch.where(finite, error, 0.0).max(), math.nan)
    right, found = torch.stack([agree.all().double(), largest]).tolist()
    return float(found) if right else None


def _agree(result: torch.Tensor, terms: _Terms, near: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.isfinite(terms.value), near & torch.isfinite(result), _same_special(result, terms.value))


def agrees(got: torch.Tensor, expected: Expected, reduction: float) -> bool:
    """Whether an output agrees with the expected one; what is wrong is mostly seen from a part of a large one."""
    if got.numel() > LARGE and not compare(*_some(got, expected), reduction).ok:
        return False
    return compare(got, expected, reduction).ok


def _some(got: torch.Tensor, expected: Expected) -> tuple[torch.Tensor, Expected]:
    """Return elements of both, evenly spread."""
    some = sampled(expected)
    # One number that stands for all elements: to write it out takes as long as to compute a large output.
    one = not any(got.stride())
    return got[(0,) * got.dim()].expand(some.value.shape) if one else got.flatten()[:: _step(got)], some


def sampled(expected: Expected, whole: int = LARGE, most: int = SAMPLED) -> Expected:
    """Return about `most` elements, evenly spread, of a tensor of more than `whole` elements, else all of it."""
    if expected.value.numel() <= min(whole, PART):
        return expected
    return expected.changed(lambda tensor: tensor.flatten()[:: _step(tensor, most)])


def _step(tensor: torch.Tensor, most: int = SAMPLED) -> int:
    """Return every how manieth element is taken. Odd, so that it is not in step with rows of a power of two."""
    return -(-tensor.numel() // most) | 1


def _compared(
    got: torch.Tensor, expected: Expected, compare_part: Callable[[torch.Tensor, Expected], Comparison]
) -> Comparison:
    """Compare part by part; the result is that of the whole."""
    if got.numel() <= PART:
        return compare_part(got, expected)
    flat, whole = got.flatten(), expected.changed(torch.Tensor.flatten)
    found: Comparison | None = None
    for start in range(0, flat.numel(), PART):
        span = slice(start, start + PART)
        part = compare_part(flat[span], whole.changed(lambda tensor, span=span: tensor[span]))  # type: ignore[misc]
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


def _compare_floats(got: torch.Tensor, expected: Expected, limits: _Limits) -> Comparison:
    result, terms = _wide(got), _Terms.of(expected, True)
    error = (result - terms.truth).abs()
    agree = _agree(result, terms, error <= limits.bound(terms))
    measured = error[torch.isfinite(error)]
    largest = float(measured.max()) if measured.numel() else math.nan
    return _report(agree, torch.where(torch.isnan(error), torch.inf, error), terms.truth, result, largest)


def _same_special(got: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return (torch.isnan(got) & torch.isnan(value)) | (got == value)


def _flips(expected: Expected) -> torch.Tensor | None:
    """Return by how much integers may differ, since perturbed runs do; None where none may, or too many would."""
    if expected.spread is None or float((expected.spread > 0).double().mean()) > MOST_FLIPS:
        return None
    return expected.spread


def _compare_exactly(got: torch.Tensor, expected: Expected, flips: bool) -> Comparison:
    """Compare bit by bit. Another byte than 0 or 1 in a bool is no bool, and cannot hide."""
    value = expected.value
    boolean = got.dtype == torch.bool
    if boolean:
        got, value = got.view(torch.uint8), value.view(torch.uint8)
    wide_got, wide_value = got.double(), value.double()
    error = (wide_got - wide_value).abs()
    agree = got.view(tensor_views.BITS[got.itemsize]) == value.view(tensor_views.BITS[value.itemsize])
    if flips and expected.spread is not None:
        # More than nothing: beyond 2^53 two integers may be the same in float64.
        may = (expected.spread > 0) & (error <= expected.spread)
        agree = agree | (may & (got <= 1) if boolean else may)
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


KERNELBENCH: Final[dict[str, float]] = {"float16": 1e-2, "bfloat16": 1e-2}
"""KernelBench's tolerance by dtype, absolute and relative alike; 1e-4 for all others, as its later versions have it."""


def passes_kernelbench(got: torch.Tensor, expected: Expected) -> bool:
    """Whether KernelBench's own comparison would accept an output, by its default tolerance."""
    return is_allclose(got, expected.value, KERNELBENCH.get(tensor_views.NAMES[expected.value.dtype], 1e-4))


def is_allclose(got: torch.Tensor, value: torch.Tensor, tolerance: float) -> bool:
    """Return `torch.allclose(value, got, atol=tolerance, rtol=tolerance)`.

    What is no floating number is compared exactly. A large output is compared part by part.
    """
    if not is_approximate(got):
        return tensor_views.equal(value, got)
    value, got = tensor_views.computable(value), tensor_views.computable(got)
    pairs = zip(torch.split(value.flatten(), PART), torch.split(got.flatten(), PART), strict=True)
    return all(torch.allclose(one, other, atol=tolerance, rtol=tolerance) for one, other in pairs)
