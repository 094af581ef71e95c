"""The largest error of a large output on a GPU, found in one pass over its memory where all of it is within tolerance.

Torch's own operators would make a dozen passes, of several milliseconds each for an output of gigabytes. What is not
within the tolerance, or not finite, is left to `compare.py`, which says what is wrong with it.
"""

from collections.abc import Iterator
from typing import Final

import torch
from torch.cuda.jiterator import _create_jit_fn

ROOM: Final = 0.999
"""The tolerance is tightened by so much where it is computed in single precision, whose roundings are far smaller."""
PART: Final = 1 << 27
"""Elements that are looked at in one launch; each takes a number for its error."""
FAR: Final = 3e38
"""What stands for an error that is too large, or is none since a number is not finite."""

_near = _create_jit_fn(
    """
    template <typename T> T near(T got, T value, T relative, T absolute) {
        const T error = got > value ? got - value : value - got;
        const T size = value < T(0) ? -value : value;
        return error <= relative * size + absolute ? error : T(3e38);
    }
    """,
    relative=0.0,
    absolute=0.0,
)
_near_exact = _create_jit_fn(
    """
    template <typename T> T near_exact(T got, T value, T exact, T relative, T absolute) {
        const T error = got > exact ? got - exact : exact - got;
        const T size = exact < T(0) ? -exact : exact;
        const bool finite = value - value == T(0) && exact - exact == T(0);
        return finite && error <= relative * size + absolute ? error : T(3e38);
    }
    """,
    relative=0.0,
    absolute=0.0,
)


def prepare(device: torch.device) -> None:
    """Compile what single and double precision take, once for a process."""
    for dtype in (torch.float32, torch.float64):
        some = torch.ones(4, dtype=dtype, device=device)
        for exact in (None, some.double()):
            largest_error_if_near(some, some, exact, 1.0, 1.0)


def largest_error_if_near(
    got: torch.Tensor, value: torch.Tensor, exact: torch.Tensor | None, relative: float, absolute: float
) -> float | None:
    """Return the largest error, or None where an element is further off than the tolerance, or is not finite.

    Args:
        got: floating tensor on a GPU, not empty.
        value: the reference's result, of the same shape and dtype.
        exact: the same in float64, from which errors are measured where it is given.
        relative: tolerance as a share of the expected element.
        absolute: tolerance beside it.
    """
    if got.is_complex():
        return None
    tolerance = {"relative": ROOM * relative, "absolute": ROOM * absolute}
    largest = float(torch.stack(list(_largest(got, value, exact, tolerance))).max())
    return largest if largest < FAR else None


def _largest(
    got: torch.Tensor, value: torch.Tensor, exact: torch.Tensor | None, tolerance: dict[str, float]
) -> Iterator[torch.Tensor]:
    flat, flat_value, flat_exact = got.flatten(), value.flatten(), None if exact is None else exact.flatten()
    for start in range(0, flat.numel(), PART):
        span = slice(start, start + PART)
        one, two = _single(flat[span]), _single(flat_value[span])
        if flat_exact is None:
            yield _near(one, two, **tolerance).amax().double()
        else:
            yield _near_exact(one, two, flat_exact[span], **tolerance).amax().double()


def _single(part: torch.Tensor) -> torch.Tensor:
    """Return numbers of less than single precision in single precision, in which their errors are exact enough."""
    return part if part.itemsize >= torch.float32.itemsize else part.float()
