"""The largest error of a large output on a GPU, in one pass over its memory if all of it is within tolerance.

Torch's own operators would take a dozen passes of several milliseconds each for an output of gigabytes. An output that
is out of tolerance or not finite is left to `compare.py`, which describes the error.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch
from torch.cuda.jiterator import _create_jit_fn

ROOM: Final = 0.999
"""Factor that tightens the tolerance in single precision, to make up for rounding, which is far smaller."""
PART: Final = 1 << 27
"""Elements per launch; each needs room for one error."""
FAR: Final = 3e38
"""Marks an error that is too large, or undefined because a number is not finite."""

_near = _create_jit_fn(
    """
    template <typename T> T near(T got, T value, T spread, T relative, T of_spread, T absolute) {
        const T error = got > value ? got - value : value - got;
        const T size = value < T(0) ? -value : value;
        return error <= relative * size + of_spread * spread + absolute ? error : T(3e38);
    }
    """,
    relative=0.0,
    of_spread=0.0,
    absolute=0.0,
)
_near_exact = _create_jit_fn(
    """
    template <typename T>
    T near_exact(T got, T value, T exact, T spread, T relative, T of_spread, T of_own, T absolute) {
        const T error = got > exact ? got - exact : exact - got;
        const T size = exact < T(0) ? -exact : exact;
        const T own = value > exact ? value - exact : exact - value;
        const bool finite = value - value == T(0) && exact - exact == T(0);
        const T bound = relative * size + of_spread * spread + of_own * own + absolute;
        return finite && error <= bound ? error : T(3e38);
    }
    """,
    relative=0.0,
    of_spread=0.0,
    of_own=0.0,
    absolute=0.0,
)


@dataclass(frozen=True)
class Factors:
    """The factors of an element's bound.

    Attributes:
        relative: multiplies its magnitude.
        of_spread: multiplies its spread.
        of_own: multiplies the distance of the reference's result from its fp64 run.
        absolute: added.
    """

    relative: float
    of_spread: float = 0.0
    of_own: float = 0.0
    absolute: float = 0.0


def prepare(device: torch.device) -> None:
    """Compile the kernels for single and double precision, once per process."""
    for dtype in (torch.float32, torch.float64):
        some = torch.ones(4, dtype=dtype, device=device)
        # Compiling one takes half a second; nearly every answer has a spread.
        for exact in (None, some.double()):
            largest_error_if_near(some, some, exact, some, Factors(1.0))


def largest_error_if_near(
    got: torch.Tensor,
    value: torch.Tensor,
    exact: torch.Tensor | None,
    spread: torch.Tensor | None,
    factors: Factors,
) -> float | None:
    """Return the largest error, or None if an element exceeds its bound or is not finite.

    Args:
        got: floating tensor on a GPU, not empty.
        value: the reference's result, of the same shape and dtype.
        exact: the reference's result in float64; if given, errors are measured from it.
        spread: distance of perturbed runs from `value`, of the same shape.
        factors: the factors of the bounds.
    """
    if got.is_complex():
        return None
    largest = float(torch.stack(list(_largest(got, value, exact, spread, factors))).max())
    return largest if largest < FAR else None


def _largest(
    got: torch.Tensor, value: torch.Tensor, exact: torch.Tensor | None, spread: torch.Tensor | None, factors: Factors
) -> Iterator[torch.Tensor]:
    flat, flat_value = got.flatten(), value.flatten()
    flat_exact, flat_spread = (None if one is None else one.flatten() for one in (exact, spread))
    common = {
        "relative": ROOM * factors.relative,
        "of_spread": ROOM * factors.of_spread,
        "absolute": ROOM * factors.absolute,
    }
    none = torch.zeros((), dtype=torch.float32, device=got.device)
    for start in range(0, flat.numel(), PART):
        span = slice(start, start + PART)
        one, two = _single(flat[span]), _single(flat_value[span])
        # One expanded zero takes no memory per element.
        # An infinite spread says that some runs have an infinity, and widens no bound of a finite number.
        apart = none.expand(one.shape) if flat_spread is None else flat_spread[span].nan_to_num(posinf=0.0)
        if flat_exact is None:
            yield _near(one, two, apart, **common).amax().double()
        else:
            own = {"of_own": ROOM * factors.of_own}
            yield _near_exact(one, two, flat_exact[span], apart, **common, **own).amax().double()


def _single(part: torch.Tensor) -> torch.Tensor:
    """Return numbers of less than single precision in single precision, in which their errors are exact enough."""
    return part if part.itemsize >= torch.float32.itemsize else part.float()
