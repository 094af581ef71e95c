"""Compares an output with the expected one and locates differences. Runs in the judge, on private copies."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch

from warpsmith.evaluator.correctness import compare_fp8, compare_gpu
from warpsmith.evaluator.devices import tensor_views

RELATIVE: Final[dict[str, float]] = {
    "float64": 1e-9,
    "float32": 1e-4,
    "float16": 5e-3,
    "bfloat16": 2e-2,
    "complex32": 5e-3,
    "complex64": 1e-4,
    "complex128": 1e-9,
}
"""Largest relative tolerance by dtype. Float32 is KernelBench's; float16 is half of its 1e-2. Fp8: `compare_fp8.py`."""
FAR_RELATIVE: Final = 1e-3
"""Relative tolerance in single precision on far inputs: the exponential of a product of two has no more precision."""
REMOTE_RELATIVE: Final = 2e-5
"""The same where single rows are remote: a sum with such a row in it that is subtracted again has lost digits."""
FARTHEST_RELATIVE: Final = 1e-2
"""The same where several inputs are far from zero as a whole: their products are, and so are sums of these."""
TF32_RELATIVE: Final = 2e-3
"""Relative tolerance of products in TF32: chips truncate thirteen bits of each operand, always towards zero."""

EPSILON: Final[dict[str, float]] = {"float32": 2.0**-23, "complex64": 2.0**-23}
ELEMENTWISE_ROUNDINGS: Final = 512
"""Tolerated roundings in single precision of an element that is not a sum: chips approximate functions."""
SPREAD_FACTOR: Final = 2.0
"""Tolerated error of an element as a multiple of its spread (`perturbation.py`)."""
OWN_FACTOR: Final = 2.0
"""Tolerated error as a multiple of the distance between the reference's own run and its fp64 run."""
ALONE_FACTOR: Final = 4.0
"""The same multiple if there is no perturbed run."""
ROUNDINGS_OF_ONE: Final = 32
"""Tolerated roundings of a number near one in float32 and float64: x * tanh(log(1 + exp(x))) has an error of some x
times that. Half precision is computed in float32 and gets four."""
MOST_PEAK: Final = 256.0
"""Cap on the largest input, which adds a rounding error: x - log(sum(exp(x))) is off by one ulp of the largest x."""
ABSOLUTE_FLOOR: Final = 1e-12
SCALE_QUANTILE: Final = 0.25
LEAST_SLICE: Final = 16
"""Smallest slice (a column, a channel) with a scale of its own, in elements."""
MOST_OTHER: Final = 1 / 16
"""Share of elements far from the fp64 run above which that run computed something else."""
MOST_FLIPS: Final = 0.25
"""Share of integers that can differ because they flip in perturbed runs; if more flip, none may differ."""
LEAST_DECIDABLE: Final = 0.5
"""Share of elements that a set must bound tightly to count as evidence."""
SAMPLED: Final = 1 << 20
"""Evenly spread elements of a larger output that determine its scale and whether its fp64 run is trusted."""
FEW: Final = 1 << 16
"""Evenly spread elements that determine whether an fp64 run is trusted, and the share of decidable elements."""
LARGE: Final = 1 << 22
"""Smallest output, in elements, that is first compared bitwise with the reference's own."""
PART: Final = 1 << 26
"""Elements compared at once; their fp64 forms and intermediate results take some gigabytes."""


def prepare(device: torch.device) -> None:
    """Load the GPU kernels for comparisons of the commonest dtypes, once per process.

    Torch loads each kernel at its first call, which took the first evaluation some tenths of a second.
    """
    compare_gpu.prepare(device)
    for name, count in itertools.product(("float32", "float16", "bfloat16"), (4, LARGE + 1)):
        value = torch.linspace(1.0, 2.0, count, dtype=tensor_views.TORCH_DTYPES[name], device=device)
        spread = torch.zeros(count, device=device)
        for got, exact in itertools.product((value, value + 1.0), (None, value.double())):
            agrees(got, Expected(value, exact, spread), 1.0)


STEADY: Final = 2.0**-6
"""Largest relative distance between perturbed runs that took the same side at every step of the function."""

MOST_UNSTEADY: Final = 1 / 16
"""Share of unsteady values in an answer that is evidence all the same: each of these gets a wide bound of its own."""


@dataclass(frozen=True)
class Expected:
    """One expected tensor.

    Attributes:
        value: the reference's own result.
        exact: the result of a run in fp64, if there is one.
        spread: largest distance per element between `value` and runs on perturbed inputs and parameters, if there are
            any; real for complex numbers too. Infinite where some of the runs have an infinity and others do not.
        tf32: whether it was computed by products in TF32.
        inputs_scale: mean magnitude of the input with the largest mean magnitude.
        inputs_peak: largest magnitude of any input.
        far: least tolerance in single precision, relative to an element and to the mean magnitude of its slice, where
            some inputs are so far out that precision does not matter, as other trials check it; 0 elsewhere.
        usual: per element, the usual magnitude in its row and column on plain inputs, if known.
        computed: name of the narrower dtype in which it was computed before a cast to its own; empty if in its own.
    """

    value: torch.Tensor
    exact: torch.Tensor | None
    spread: torch.Tensor | None = None
    tf32: bool = False
    inputs_scale: float = 1.0
    inputs_peak: float = 0.0
    far: float = 0.0
    usual: torch.Tensor | None = None
    computed: str = ""

    @property
    def precision(self) -> str:
        """The name of the dtype whose roundings its numbers have."""
        return self.computed or _computed_in(tensor_views.NAMES[self.value.dtype])

    def changed(self, change: Callable[[torch.Tensor], torch.Tensor]) -> "Expected":
        """Return a copy with `change` applied to each tensor, to select the same elements of all."""
        exact, spread = (None if one is None else change(one) for one in (self.exact, self.spread))
        return replace(self, value=change(self.value), exact=exact, spread=spread, usual=None)

    @property
    def is_exact(self) -> bool:
        """Whether it is compared with an fp64 run, or needs none. Synchronizes with the device."""
        if not is_approximate(self.value) or not self.value.numel():
            return True
        relative = relative_tolerance(self.precision, 1.0, tf32=self.tf32)
        return self.exact is not None and bool(_trusted(self, relative))

    @property
    def strays(self) -> bool:
        """Whether the own run computed something else than the fp64 run, as where a square overflows in float16."""
        return self.exact is not None and not self.is_exact

    @property
    def flips_often(self) -> bool:
        """Whether perturbed runs changed more integers than may differ. Synchronizes with the device."""
        return not is_approximate(self.value) and self.spread is not None and _flips(sampled(self)) is None

    @property
    def is_steady(self) -> bool:
        """Whether no perturbed run changed a value by more than rounding. Synchronizes with the device."""
        return self._unsteady == 0

    @property
    def is_mostly_steady(self) -> bool:
        """Whether the perturbed runs changed few values by more than rounding. Synchronizes with the device."""
        return self._unsteady <= MOST_UNSTEADY

    @property
    def _unsteady(self) -> float:
        """Share of the values that perturbed runs changed by more than rounding."""
        if self.spread is None or not self.spread.numel():
            return 0.0
        if not is_approximate(self.value):
            return float((self.spread != 0).double().mean())
        size = tensor_views.computable(self.value).abs().to(self.spread.dtype)
        size = torch.where(torch.isfinite(size), size, 0.0)
        return float((~(self.spread <= STEADY * (size + size.mean()))).double().mean())

    @property
    def decidable(self) -> float:
        """Share of elements, 0 to 1, whose bound is tight enough to detect an error. Synchronizes with the device."""
        return _decidable(self)


@dataclass(frozen=True)
class Comparison:
    """The result of comparing one output. `where` and both values are the worst element's; None if all agree.

    `flipped` is the name of an fp8 dtype in which no element is wrong, but more are off by a step than allowed.
    """

    ok: bool
    max_abs_error: float = 0.0
    mismatched: int = 0
    total: int = 0
    where: tuple[int, ...] | None = None
    expected: float | None = None
    got: float | None = None
    flipped: str = ""

    @property
    def message(self) -> str:
        """What is wrong, for people; empty if nothing is."""
        if self.ok or self.where is None:
            return ""
        if self.flipped:
            return (
                f"{self.mismatched} of {self.total} elements ({self.mismatched_fraction:.2%}) are the {self.flipped} "
                f"number next to the expected one, more than rounding errors explain (about "
                f"{compare_fp8.MOST_FLIPPED:.1%}); round to nearest even, as the cast does. One is at index "
                f"{list(self.where)}: expected {self.expected:.7g}, got {self.got:.7g}"
            )
        return (
            f"{self.mismatched} of {self.total} elements ({self.mismatched_fraction:.2%}) are wrong; "
            f"the worst is at index {list(self.where)}: expected {self.expected:.7g}, got {self.got:.7g}"
        )

    @property
    def mismatched_fraction(self) -> float:
        return self.mismatched / self.total if self.total else 0.0


def relative_tolerance(name: str, reduction: float, *, tf32: bool = False) -> float:
    """Return the tolerated error of an element as a share of its own magnitude.

    In single precision it grows with the square root of the reduction length, as rounding errors of a sum do, up to
    `RELATIVE`: summing only a sample of the terms causes a larger error. That of fp8 is of the number before the cast.

    Args:
        name: name of the dtype.
        reduction: how many input elements contribute to one output element, 1 or more.
        tf32: whether it was computed by products in TF32.
    """
    name = _computed_in(name)
    if tf32 and name in EPSILON:
        return TF32_RELATIVE
    most = RELATIVE.get(name, 0.0)
    if name not in EPSILON:
        return most
    return min(most, EPSILON[name] * (ELEMENTWISE_ROUNDINGS + 2 * math.sqrt(max(reduction, 1.0))))


def _computed_in(name: str) -> str:
    """Return the dtype whose rounding errors a dtype's numbers have."""
    return compare_fp8.COMPUTED_IN if tensor_views.TORCH_DTYPES[name] in compare_fp8.FORMATS else name


def near_one(name: str) -> float:
    """Return the tolerated rounding error of a number near one."""
    name = _computed_in(name)
    if name not in RELATIVE:
        return 0.0
    kind = tensor_views.TORCH_DTYPES[name]
    return (ROUNDINGS_OF_ONE if kind.to_real().itemsize >= 4 else 4) * torch.finfo(kind).eps


def floor(name: str) -> float:
    """Return the smallest absolute tolerance of a dtype: 1e-12, or two of its smallest steps if those are larger."""
    if not is_approximate_dtype(tensor_views.TORCH_DTYPES[name]):
        return ABSOLUTE_FLOOR
    limits = torch.finfo(tensor_views.TORCH_DTYPES[name])
    return max(ABSOLUTE_FLOOR, 2 * limits.tiny * limits.eps)


@dataclass(frozen=True)
class _Limits:
    """Bounds of an output's elements that do not depend on the single element; computed without synchronizing.

    Attributes:
        relative: tolerated error as a share of the element's magnitude.
        absolute: tolerated error added to that; a scalar, or one per element.
        trusted: whether the fp64 run computed the same as the own run.
        own_factor: multiplies the distance between the own run and the fp64 run.
    """

    relative: float
    absolute: torch.Tensor
    trusted: torch.Tensor
    own_factor: float

    def bound(self, terms: "_Terms") -> torch.Tensor:
        """Return the tolerated error of each element."""
        bound = self.relative * terms.truth.abs() + self.own_factor * terms.own_error
        # An element that is infinite in some runs has no other spread: where it is finite, it is near the reference's.
        return bound + SPREAD_FACTOR * torch.where(torch.isinf(terms.spread), 0.0, terms.spread) + self.absolute


@dataclass(frozen=True)
class _Terms:
    """What is known about each element, in float64; complex numbers as their two parts.

    Attributes:
        value: the reference's own result.
        truth: the fp64 run, if trusted, where both runs are finite; else `value`.
        own_error: distance between `value` and a trusted fp64 run.
        spread: distance between `value` and the perturbed runs; in fp8 the trusted fp64 run is one of them.
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
        if compare_fp8.is_fp8(expected.value):
            own = (compare_fp8.rounded(expected.exact, expected.value).double() - value).abs()
            apart = torch.where(torch.isfinite(own) & trusted, own, 0.0)
            return _Terms(value, value, torch.zeros_like(value), torch.maximum(spread, apart))
        exact = _wide(expected.exact)
        usable = torch.isfinite(value) & torch.isfinite(exact) & trusted
        return _Terms(value, torch.where(usable, exact, value), torch.where(usable, (value - exact).abs(), 0.0), spread)


def _spread(expected: Expected) -> torch.Tensor:
    if expected.spread is None:
        return torch.zeros((), dtype=torch.float64, device=expected.value.device)
    wide = expected.spread.double()
    return wide[..., None] if expected.value.is_complex() else wide


def _limits(expected: Expected, reduction: float) -> _Limits:
    """Return the limits of a floating tensor that is no larger than a sample; in fp8, of what exceeds a step."""
    name = expected.precision
    relative = relative_tolerance(name, reduction, tf32=expected.tf32)
    trusted = _trusted(expected, relative)
    truth = _Terms.of(expected, trusted).truth
    scale = _scale(truth, truth.dim() - expected.value.is_complex())
    if expected.usual is not None:
        scale = torch.maximum(scale, expected.usual)
    # A small number computed from numbers near one has their rounding error; from inputs, the inputs' rounding error.
    absolute = near_one(name) * scale.clamp(max=max(1.0, expected.inputs_scale))
    if name in EPSILON:
        absolute = absolute + EPSILON[name] * min(expected.inputs_peak, MOST_PEAK) * scale.clamp(max=1.0)
    if expected.far and name in EPSILON:
        relative, absolute = max(relative, expected.far), torch.maximum(absolute, expected.far * scale)
    if expected.spread is None:
        absolute = torch.minimum(torch.maximum(absolute, relative * _low(truth)), relative * scale)
    factor = ALONE_FACTOR if expected.spread is None else OWN_FACTOR
    return _Limits(relative, absolute.clamp(min=floor(name)), trusted, factor)


def _trusted(expected: Expected, relative: float) -> torch.Tensor:
    """Return whether the fp64 run is near the own run except in few elements; else it computed something else.

    A cast to the own dtype or a constant in it can cause that. Few far elements lie next to a step of the function.
    """
    if expected.exact is None:
        return torch.ones((), dtype=torch.bool, device=expected.value.device)
    some = sampled(expected, FEW, FEW)
    assert some.exact is not None
    if compare_fp8.is_fp8(some.value):
        far = compare_fp8.beyond_a_step(compare_fp8.rounded(some.exact, some.value), some.value)
        return far.sum() <= MOST_OTHER * far.numel()
    value, exact = _wide(some.value), _wide(some.exact)
    both = torch.isfinite(value) & torch.isfinite(exact)
    scale = (torch.where(both, exact, 0.0).square().mean()).sqrt().clamp(min=ABSOLUTE_FLOOR)
    allowed = 100 * relative * torch.maximum(exact.abs(), scale) + SPREAD_FACTOR * _spread(some)
    far = both & ((value - exact).abs() > allowed)
    return far.sum() <= MOST_OTHER * both.sum()


def usual(expected: Expected) -> torch.Tensor | None:
    """Return the usual magnitude in each element's row and column; None for a large tensor or integers."""
    if not is_approximate(expected.value) or not 0 < expected.value.numel() <= LARGE:
        return None
    truth = _wide(expected.value)
    return _scale(truth, truth.dim() - expected.value.is_complex())


def _scale(truth: torch.Tensor, dims: int) -> torch.Tensor:
    """Return the smallest mean magnitude of the slices that contain an element, and of the whole.

    So a column of small numbers next to large ones is bounded by the usual magnitude in that column.
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
    """Return the lower quartile of the magnitudes of nonzero elements; zero if there are none."""
    sizes = truth.flatten()[:: -(-truth.numel() // SAMPLED)].abs()
    counted = torch.isfinite(sizes) & (sizes != 0)
    rank = (SCALE_QUANTILE * counted.sum().double()).ceil().long().clamp(min=1)
    return torch.where(counted.any(), _smallest(torch.where(counted, sizes, math.inf), rank), 0.0)


def _smallest(sizes: torch.Tensor, rank: torch.Tensor) -> torch.Tensor:
    """Return the element of a 1-based rank. A GPU sorts a million elements faster than it selects one."""
    if sizes.device.type == "cpu":
        return sizes.kthvalue(int(rank)).values
    # `take`, because indexing with a 0-dimensional tensor synchronizes.
    return sizes.sort().values.take(rank - 1)


def bounds(expected: Expected, reduction: float) -> torch.Tensor:
    """Return the tolerated error of each element of a floating tensor, in float64; per part for complex numbers.

    It is the sum of a share of the element's magnitude, of its spread under rounding perturbations, of the distance
    between the own run and the fp64 run, and of some roundings of a number near one, or of an input if those are
    larger, capped by the usual magnitude in the element's row and column, here or on plain inputs. Without a spread,
    the last part is a share of that usual magnitude. An element of fp8 may be a step further away.
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
    bound = torch.isfinite(unknown) & (unknown <= torch.maximum(0.5 * terms.truth.abs(), limits.absolute))
    return float(bound.double().mean())


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor).double() if tensor.is_complex() else tensor.double()


def compare(got: torch.Tensor, expected: Expected, reduction: float) -> Comparison:
    """Compare one output with the expected tensor of the same dtype and shape.

    NaNs and infinities must be where the reference has them, with the same sign. Integers and booleans must be equal,
    except those that flip between perturbed runs of the reference. Floats must be within `bounds`; fp8 beyond one step
    of the format, and few of its elements may differ at all. A large output is compared in parts to save memory; a
    sample of its elements then determines its scale and whether its fp64 run is trusted.
    """
    if not got.numel():
        return Comparison(ok=True)
    if not is_approximate(got):
        flips = _flips(sampled(expected)) is not None
        return _compared(got, expected, lambda part, other: _compare_exactly(part, other, flips))
    on_device = got.device.type == "cuda"
    in_one_pass = on_device and not compare_fp8.is_fp8(got)
    if got.numel() > LARGE and not in_one_pass and tensor_views.equal(got, expected.value):
        return Comparison(ok=True, total=got.numel())
    if got.numel() <= LARGE and on_device:
        largest = largest_error_if_right(got, expected, reduction)
        if largest is not None:
            return Comparison(ok=True, max_abs_error=largest, total=got.numel() * (2 if got.is_complex() else 1))
    limits = _limits(sampled(expected), reduction)
    trusted = expected if bool(limits.trusted) else replace(expected, exact=None)
    if got.numel() > LARGE and in_one_pass:
        largest = _largest_of_many(got, trusted, limits)
        if largest is not None:
            return Comparison(ok=True, max_abs_error=largest, total=got.numel())
    return _compared(got, trusted, lambda part, other: _compare_floats(part, other, limits))


def _largest_of_many(got: torch.Tensor, trusted: Expected, limits: _Limits) -> float | None:
    """Return the largest error of a large output on a GPU, or None if it may be wrong."""
    factors = compare_gpu.Factors(limits.relative, SPREAD_FACTOR, limits.own_factor, float(limits.absolute))
    return compare_gpu.largest_error_if_near(got, trusted.value, trusted.exact, trusted.spread, factors)


def is_approximate(tensor: torch.Tensor) -> bool:
    """Whether a tensor's numbers are rounded: floats, except exponents (`float8_e8m0fnu`), which are exact."""
    return is_approximate_dtype(tensor.dtype)


def is_approximate_dtype(dtype: torch.dtype) -> bool:
    """Whether numbers of a dtype are rounded."""
    return dtype in compare_fp8.FORMATS or tensor_views.NAMES[dtype] in RELATIVE


def largest_error_if_right(got: torch.Tensor, expected: Expected, reduction: float) -> float | None:
    """Return the largest error of a small float output if it is right, else None; NaN if no element is finite.

    Applies the rules of `compare`, but synchronizes with the device once instead of once per number. `compare` then
    describes a wrong output.
    """
    limits, result = _limits(expected, reduction), _wide(got)
    terms = _Terms.of(expected, limits.trusted)
    error = (result - terms.truth).abs()
    finite = torch.isfinite(error)
    agree = _agree(result, terms, _beyond_a_step(got, expected, error) <= limits.bound(terms))
    largest = torch.where(finite.any(), torch.where(finite, error, 0.0).max(), math.nan)
    right, found = torch.stack([agree.all().double(), largest]).tolist()
    if not right or (found and _flipped(got, expected, terms) is not None):
        return None
    return float(found)


def _beyond_a_step(got: torch.Tensor, expected: Expected, error: torch.Tensor) -> torch.Tensor:
    """Return the errors, in fp8 those of an output moved by one step towards the expected one."""
    if not compare_fp8.is_fp8(got):
        return error
    return (compare_fp8.one_step_nearer(got, expected.value) - expected.value.double()).abs()


def _flipped(got: torch.Tensor, expected: Expected, terms: _Terms) -> torch.Tensor | None:
    """Return which elements of an fp8 output differ though no perturbed run changes them; None if they are few."""
    if not compare_fp8.is_fp8(got):
        return None
    result = got.double()
    steady = torch.isfinite(terms.value) & torch.isfinite(result) & (terms.spread == 0)
    flipped = steady & (result != terms.value)
    return flipped if compare_fp8.too_many_flipped(expected.value, steady, flipped) else None


def _agree(result: torch.Tensor, terms: _Terms, near: torch.Tensor) -> torch.Tensor:
    """Return which elements agree; one that is infinite in some of the reference's runs only may be either."""
    is_finite, finite = torch.isfinite(terms.value), torch.isfinite(result)
    same = torch.where(is_finite, near & finite, _same_special(result, terms.value))
    other = torch.where(is_finite, torch.isinf(result), finite)
    return same | (torch.isinf(terms.spread) & other)


def agrees(got: torch.Tensor, expected: Expected, reduction: float) -> bool:
    """Whether an output agrees with the expected one; a wrong large output is mostly detected by a sample."""
    if got.numel() > LARGE and not compare(*_some(got, expected), reduction).ok:
        return False
    return compare(got, expected, reduction).ok


def _some(got: torch.Tensor, expected: Expected) -> tuple[torch.Tensor, Expected]:
    """Return evenly spread elements of both."""
    some = sampled(expected)
    # One number expanded to all elements: materializing it takes as long as computing a large output.
    one = not any(got.stride())
    return got[(0,) * got.dim()].expand(some.value.shape) if one else got.flatten()[:: _step(got)], some


def sampled(expected: Expected, whole: int = LARGE, most: int = SAMPLED) -> Expected:
    """Return about `most` evenly spread elements of a tensor with more than `whole` elements, else all of it."""
    if expected.value.numel() <= min(whole, PART):
        return expected
    return expected.changed(lambda tensor: tensor.flatten()[:: _step(tensor, most)])


def _step(tensor: torch.Tensor, most: int = SAMPLED) -> int:
    """Return the stride of a sample: odd, so that it does not align with rows of a power of two."""
    return -(-tensor.numel() // most) | 1


def _compared(
    got: torch.Tensor, expected: Expected, compare_part: Callable[[torch.Tensor, Expected], Comparison]
) -> Comparison:
    """Compare in parts, and merge the results."""
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
    """Return a part's comparison with its worst element's index in the whole."""
    if part.where is None:
        return part
    first, *component = part.where
    return replace(part, where=(*_unravelled(start + first, shape), *component))


def _unravelled(flat: int, shape: torch.Size) -> tuple[int, ...]:
    """Return an element's index. Torch's own function imports sympy, which takes half a second."""
    return tuple(int(index) for index in np.unravel_index(flat, tuple(shape)))


def _merged(one: Comparison, two: Comparison) -> Comparison:
    """Merge the comparisons of two parts, in their order; an error of NaN (no finite value) is ignored."""
    measured = [part.max_abs_error for part in (one, two) if not math.isnan(part.max_abs_error)]
    return replace(
        max(one, two, key=_badness),
        ok=one.ok and two.ok,
        max_abs_error=max(measured, default=math.nan),
        mismatched=one.mismatched + two.mismatched,
        total=one.total + two.total,
    )


def _badness(part: Comparison) -> float:
    """Return the error of a part's worst element in the order of `_report`: NaN is the worst."""
    if part.expected is None or part.got is None:
        return -1.0
    error = abs(part.got - part.expected)
    return math.inf if math.isnan(error) else error


def _compare_floats(got: torch.Tensor, expected: Expected, limits: _Limits) -> Comparison:
    result, terms = _wide(got), _Terms.of(expected, True)
    error = (result - terms.truth).abs()
    agree = _agree(result, terms, _beyond_a_step(got, expected, error) <= limits.bound(terms))
    measured = error[torch.isfinite(error)]
    largest = float(measured.max()) if measured.numel() else math.nan
    error = torch.where(torch.isnan(error), torch.inf, error)
    found = _report(agree, error, terms.truth, result, largest)
    flipped = _flipped(got, expected, terms) if found.ok and largest > 0 else None
    if flipped is None:
        return found
    found = _report(~flipped, error, terms.truth, result, largest)
    return replace(found, flipped=tensor_views.NAMES[got.dtype])


def _same_special(got: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return (torch.isnan(got) & torch.isnan(value)) | (got == value)


def _flips(expected: Expected) -> torch.Tensor | None:
    """Return by how much integers may differ because perturbed runs do; None if none do, or too many."""
    if expected.spread is None or float((expected.spread > 0).double().mean()) > MOST_FLIPS:
        return None
    return expected.spread


def _compare_exactly(got: torch.Tensor, expected: Expected, flips: bool) -> Comparison:
    """Compare bitwise. A byte other than 0 or 1 in a bool counts as wrong."""
    value = expected.value
    boolean = got.dtype == torch.bool
    if boolean:
        got, value = got.view(torch.uint8), value.view(torch.uint8)
    wide_got, wide_value = got.double(), value.double()
    error = (wide_got - wide_value).abs()
    agree = got.view(tensor_views.BITS[got.itemsize]) == value.view(tensor_views.BITS[value.itemsize])
    if flips and expected.spread is not None:
        # Only where the spread is positive: beyond 2^53 two different integers can be equal in float64.
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
"""KernelBench's tolerance by dtype, both absolute and relative; 1e-4 for all others, as in its later versions."""


def passes_kernelbench(got: torch.Tensor, expected: Expected) -> bool:
    """Whether KernelBench's own comparison, with its default tolerance, would accept an output."""
    return is_allclose(got, expected.value, KERNELBENCH.get(tensor_views.NAMES[expected.value.dtype], 1e-4))


def is_allclose(got: torch.Tensor, value: torch.Tensor, tolerance: float) -> bool:
    """Return `torch.allclose(value, got, atol=tolerance, rtol=tolerance)`.

    Tensors that are not floating are compared exactly. A large output is compared in parts.
    """
    if not is_approximate(got):
        return tensor_views.equal(value, got)
    value, got = tensor_views.computable(value), tensor_views.computable(got)
    pairs = zip(torch.split(value.flatten(), PART), torch.split(got.flatten(), PART), strict=True)
    return all(torch.allclose(one, other, atol=tolerance, rtol=tolerance) for one, other in pairs)
