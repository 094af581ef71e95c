"""What an fp8 output may differ by: one step of its format, and in a small share of its elements.

Nobody computes in fp8; it is the type of a final cast. So an honest element is the expected one, or its neighbour where
the number before the cast lies next to the middle between the two. Few do. A kernel that computes in single precision,
in whatever order, flips about one element in 100,000. One that leaves out the reference's roundings to bfloat16 flips
up to 6 % of e4m3 (`tests/correctness/test_compare_fp8.py` measures both). One that truncates flips half.
"""

import math
from typing import Final

import torch

FORMATS: Final = frozenset(
    {torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz},
)
"""The fp8 dtypes with a fraction. `float8_e8m0fnu` holds exponents, which are exact."""
COMPUTED_IN: Final = "float32"
"""Precision of the numbers before the cast, whose rounding errors are tolerated beyond a step."""
MOST_FLIPPED: Final = 1 / 8
"""Share of the steady elements that may differ: twice what roundings to bfloat16 flip, a quarter of truncation's."""
DEVIATIONS: Final = 3.0
"""Standard deviations of a count by which a share of few elements may exceed that: 4 of 8, 16 of 64."""
_SIGN: Final = 0x80
_CODES: Final = 256


def is_fp8(tensor: torch.Tensor) -> bool:
    """Whether a tensor is of one of `FORMATS`."""
    return tensor.dtype in FORMATS


def _places(tensor: torch.Tensor) -> torch.Tensor:
    """Return each number's place among the numbers of its format, int16: 0 for both zeros, -1 for the one below."""
    bits = tensor.view(torch.uint8).to(torch.int16)
    size = bits & (_SIGN - 1)
    return torch.where(bits >= _SIGN, -size, size)


def one_step_nearer(got: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Return `got` moved by one step of its format towards `value` where they differ, in float64.

    NaN and infinities move to some number: the caller must have distinguished them.
    """
    place = _places(got)
    place = place + torch.sign(_places(value) - place)
    bits = torch.where(place < 0, _SIGN - place, place).to(torch.uint8)
    return bits.view(got.dtype).double()


def rounded(exact: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Return the numbers of a run in fp64 in the format of `value`; `value` where one of both is not finite."""
    cast = exact.to(value.dtype)
    finite = torch.isfinite(cast.float()) & torch.isfinite(value.float())
    return torch.where(finite, cast.view(torch.uint8), value.view(torch.uint8)).view(value.dtype)


def beyond_a_step(one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
    """Return which numbers of two tensors of one format are not the same or neighbours."""
    return (_places(one) - _places(two)).abs() > 1


def allowed(count: float) -> float:
    """Return how many of `count` steady elements may differ."""
    share = count * MOST_FLIPPED
    return share + DEVIATIONS * math.sqrt(share)


def too_many_flipped(value: torch.Tensor, steady: torch.Tensor, flipped: torch.Tensor) -> bool:
    """Whether more elements differ than roundings explain. Synchronizes with the device.

    Equal numbers before the cast flip together: those of a constant row, or of a grid. They are not known, but equal
    ones have one expected number. So elements must be too many, and either of two counts that take elements of one
    expected number for one observation: the numbers, each by the share of its elements that differ, or the share of all
    elements, as of so few independent ones as vary like it.

    Args:
        value: the expected output, of an fp8 dtype.
        steady: elements that no perturbed run of the reference changes; bool of the same shape.
        flipped: those of them that differ.
    """
    count, differ = float(steady.sum()), float(flipped.sum())
    if differ <= allowed(count):
        return False
    codes = value.contiguous().view(torch.uint8).flatten().long()
    of_each, differing = (torch.bincount(codes[some.flatten()], minlength=_CODES) for some in (steady, flipped))
    by_number = differing / of_each.clamp(min=1)
    if float(by_number.sum()) > allowed(float((of_each > 0).sum())):
        return True
    independent = count**2 / float(of_each.double().square().sum())
    return independent * differ / count > allowed(independent)
