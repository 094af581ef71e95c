"""Numbers whose products cancel, so that a decision depends on digits that half precision has not.

An index of the largest score, or the sign of a projection, shows an error of 2^-12 in one row of some thousands: the
best score is seldom that near to the second best. If neighbours along each dimension of one operand are nearly equal,
and those of the other one nearly opposite, every sum of products consists of what distinguishes neighbours. In half
precision that is noise, and so is each decision; in single precision it keeps ten bits and more.
"""

from collections.abc import Iterable
from typing import Final

import torch

from warpsmith.evaluator.reference.mutations import MOST_AT_ONCE, drawn_by

APART: Final = 2.0**-11
"""Largest distance between two neighbours as a share of their size: the step of float16, 64 of the perturbations that
find out which decisions rounding may change, and a thousand roundings of single precision."""
LEAST_PAIRED: Final = 4
"""Fewest places of a dimension whose neighbours are paired."""
DISTINCT: Final = 6
LEAST_ALIKE: Final = 16
"""How many slices differ where most are alike, and of how many. An average of decisions hides few that differ beside
many that rounding may change; six of them are often all steady."""


def pair(
    tensor: torch.Tensor,
    dims: Iterable[int],
    generator: torch.Generator,
    *,
    opposite: bool,
    alike: bool = False,
    within: bool = False,
) -> None:
    """Make neighbours along some dimensions nearly equal, or nearly opposite.

    Of four opposite ones, the first and the third are nearly equal: so are two rows of a table of codes.

    Args:
        tensor: of float32 and two or more dimensions, changed in place; others stay, and so do very large ones.
        dims: along which.
        generator: random generator on the tensor's device.
        opposite: whether signs alternate. The last of an odd number of places then becomes small.
        alike: whether only a few slices along the first dimension differ.
        within: whether no number may leave the range of the tensor.
    """
    if not can_pair(tensor):
        return
    made = tensor.detach().clone()
    low, high = made.aminmax()
    for dim in {dim % tensor.dim() for dim in dims}:
        made = _paired(made, dim, opposite=opposite)
    made = nearly(made, generator)
    if alike and len(made) >= LEAST_ALIKE:
        made = made[torch.randint(DISTINCT, (len(made),), **drawn_by(generator))]
    tensor.detach().copy_(made.clamp(low, high) if within else made)


def can_pair(tensor: torch.Tensor) -> bool:
    """Whether `pair` changes a tensor of this form."""
    return tensor.dtype == torch.float32 and tensor.dim() > 1 and 0 < tensor.numel() <= MOST_AT_ONCE


def nearly(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return numbers that are nearly equal to those of a tensor."""
    return tensor * (1 + APART * (2 * torch.rand(tensor.shape, **drawn_by(generator)) - 1))


def _paired(wide: torch.Tensor, dim: int, *, opposite: bool) -> torch.Tensor:
    """Return a tensor with the first number of each two along a dimension, or four, in all places of these."""
    count = wide.shape[dim]
    if count < LEAST_PAIRED:
        return wide
    place = torch.arange(count, device=wide.device)
    made = wide.index_select(dim, place - place % (4 if opposite else 2))
    if not opposite:
        return made
    factor = torch.where(place % 2 == 0, 1.0, -1.0)
    if count % 2:
        factor[-1] = APART
    return made * factor.reshape([-1 if at == dim else 1 for at in range(wide.dim())])
