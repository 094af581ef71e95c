"""Slices of a draw, and parameters, in which a recurrence keeps its memory.

A gate near one half, a factor below one or weights that contract forget within a few dozen steps. A kernel that starts
each chunk from nothing, or writes zeros where a product has underflowed, is then right to the last digit. Numbers at
moderate distances keep a gate open or shut, products of numbers near one last as long as the input, and a weight above
one from a unit to itself holds a state.
"""

import math
from typing import Final

import torch

from warpsmith.evaluator.reference.levels import ANY_SIGN, ANYWHERE, FAR, SAME_SIGN
from warpsmith.evaluator.reference.mutations import FARTHEST, Dice, drawn_by

LEAST_SLICES: Final = 4
"""Fewest slices along a dimension of which some, at most half, are replaced."""
MODERATE: Final = (2.0, 8.0)
"""Distances from zero at which a sigmoid is 0.88 to 0.9997: a memory of eight to three thousand steps."""
DEEPER: Final = 3.0
"""Width of the distances, from the logarithm of the number of steps on, that keep a memory for all of them."""
STEP: Final = 2.0**-4
"""Such numbers are multiples of this on a grid."""
LATCH: Final = (3.0, 5.0)
"""Weight of a unit to itself: tanh(3 h) has two stable states, and the usual inputs seldom move one to the other."""
LATCH_TURNS: Final = 12
NEAR_ONE_TURNS: Final = 12
"""One matrix in so many gets moderate slices, or units that only keep what they have; one vector numbers near one."""
NEAR: Final = 2.0**-8
"""Distance from one below which a factor keeps a state for hundreds of steps."""
SHARE: Final = 1 / 2
"""Share of the units that get such a weight, and of a bias's numbers that move."""
UPWARDS: Final = 2 / 3


def add_lasting_slices(
    tensor: torch.Tensor,
    level: int,
    generator: torch.Generator,
    *,
    on_grid: bool,
    moderate: bool = True,
    alone: bool = False,
) -> None:
    """Replace a few slices along each dimension of many: by moderate numbers of either sign, and by numbers near one.

    At level `FAR`, off the grid, one along the first dimension is as wide as an outlier is far. The slices along the
    shortest dimension come last and stay whole: they are a sample's, or a channel's, at all steps.

    Args:
        tensor: a floating draw, changed in place.
        level: how far it may vary; below `ANY_SIGN` no number leaves the draw's range or takes a new sign.
        generator: random generator on the tensor's device.
        on_grid: whether the numbers have few bits. Slices along other dimensions than the first then lie in one half of
            it: in the other half, a row whose largest number is one of the source keeps that.
        moderate: whether some are at moderate distances, or wide; otherwise all are near one.
        alone: whether nothing else is asked of the draw. Then one of few slices is replaced too, even of a single one,
            and no single step, which might end what the others keep.
    """
    if tensor.is_complex() or tensor.dim() < (1 if alone else 2) or not tensor.numel():
        return
    tensor, dice = tensor.detach(), Dice(generator)
    tensor = tensor[None] if tensor.dim() == 1 else tensor
    low, high = (float(one) for one in tensor.aminmax())
    spread = float(tensor.double().std()) if tensor.numel() > 1 else 0.0
    if not (math.isfinite(low) and math.isfinite(high) and 0 < spread < math.inf):
        return
    length, half = max(tensor.shape), _half_of(tensor, dice) if on_grid else slice(None)
    for dim in sorted(range(tensor.dim()), key=lambda dim: -tensor.shape[dim])[1 if alone else 0 :]:
        if tensor.shape[dim] < LEAST_SLICES and not alone:
            continue
        order = torch.randperm(tensor.shape[dim], **drawn_by(generator)).tolist()
        shape = tensor.select(dim, 0).shape
        slices = _near_one(shape, length, dice, on_grid=on_grid)
        if moderate:
            # A wide channel would drown the others at every step of a state that mixes them. On a grid, where no input
            # is perturbed, products of two wide slices cancel further than the noise of a result shows.
            wide = level == FAR and dim == 0 and not on_grid
            single = alone and tensor.shape[dim] == 1
            slices += [] if single else _moderate(shape, level, spread, dice, on_grid=on_grid, wide=wide)
            # What moderate numbers keep for a thousand steps, these keep for as many as there are.
            deep = (max(MODERATE[0], math.log(length)), max(MODERATE[0], math.log(length)) + DEEPER)
            slices += _moderate(shape, level, spread, dice, deep, on_grid=on_grid) if alone else []
        for at, made in zip(order[: max(len(order) // 2, 1)], dice.shuffled(slices), strict=False):
            part = slice(None) if dim == 0 else half
            tensor.select(dim, at)[part].copy_(_allowed(made.to(tensor.dtype), level, low, high)[part])


def _half_of(tensor: torch.Tensor, dice: Dice) -> slice:
    """Return the first or the second half of the first dimension, all of it if it has one place."""
    middle = tensor.shape[0] // 2
    return slice(middle) if middle and dice.coin() else slice(middle, None)


def _near_one(shape: torch.Size, length: int, dice: Dice, *, on_grid: bool) -> list[torch.Tensor]:
    """Return a slice of numbers whose product over a length stays near one, and one of such numbers of either sign."""
    signs = torch.where(dice.rand(shape) < 1 / 2, -1.0, 1.0)
    beside = signs * 2.0 ** -math.ceil(math.log2(max(length, 2))) if on_grid else (2 * dice.rand(shape) - 1) / length
    return [1 + beside, torch.where(dice.rand(shape) < 1 / 2, -1.0, 1.0) * (1 + beside)]


def _moderate(
    shape: torch.Size,
    level: int,
    spread: float,
    dice: Dice,
    within: tuple[float, float] = MODERATE,
    *,
    on_grid: bool,
    wide: bool = False,
) -> list[torch.Tensor]:
    """Return a slice of moderate numbers of each sign, and a wide one if asked to."""
    low, high = within
    most = FARTHEST[max(level, SAME_SIGN)] * spread
    sizes = [min(1.0, most / high) * (low + (high - low) * dice.rand(shape)) for _ in range(2)]
    up, down = ((size / STEP).round() * STEP for size in sizes) if on_grid else sizes
    return [up, -down, *([most * (2 * dice.rand(shape) - 1)] if wide else [])]


def _allowed(made: torch.Tensor, level: int, low: float, high: float) -> torch.Tensor:
    if level >= ANY_SIGN:
        return made
    if low >= 0 or high <= 0:
        made = made.abs() if low >= 0 else -made.abs()
    return made if level == SAME_SIGN else made.clamp(low, high)


def add_memory(tensor: torch.Tensor, generator: torch.Generator) -> None:
    """Give a parameter what keeps a state, one of several ways at random.

    Some numbers of a vector become moderate or near one. So do some rows or columns of a matrix, or its units get
    weights to themselves. It may be several square ones stacked (the gates of an LSTM), or have a square one at either
    end of its rows (the state beside the input).

    Args:
        tensor: a floating parameter, changed in place.
        generator: random generator on the tensor's device.
    """
    dice = Dice(generator)
    if tensor.numel() < 2:
        return
    if tensor.dim() == 2 and not dice.below(LATCH_TURNS):
        add_lasting_slices(tensor, ANYWHERE, generator, on_grid=False)
    elif tensor.dim() == 2:
        _add_latches(tensor, dice)
    elif tensor.dim() == 1 and dice.below(NEAR_ONE_TURNS):
        low, high = MODERATE
        signs = torch.where(dice.rand(tensor.shape) < UPWARDS, 1.0, -1.0)
        moved = (low + (high - low) * dice.rand(tensor.shape)) * signs
        tensor.add_(torch.where(dice.rand(tensor.shape) < SHARE, moved, 0.0).to(tensor.dtype))
    else:
        near = 1 - NEAR * dice.rand(tensor.shape)
        tensor.copy_(torch.where(dice.rand(tensor.shape) < SHARE, near.to(tensor.dtype), tensor))


def _add_latches(tensor: torch.Tensor, dice: Dice) -> None:
    """Add weights of units to themselves; or give some units no other weight of the state, and near one to themselves.

    The second keeps what the first makes overflow: a state that no function bounds.
    """
    rows, columns = tensor.shape
    size = min(rows, columns)
    if rows > columns and rows % columns:
        return
    first, latched = columns - size, dice.below(LATCH_TURNS)
    low, high = LATCH
    for start in range(0, max(rows, size), size):
        square = tensor[start : start + size, first : first + size]
        chosen = dice.rand((len(square),)) < SHARE
        if latched:
            weights = low + (high - low) * dice.rand((len(square),))
            square.diagonal().add_(torch.where(chosen, weights, 0.0).to(tensor.dtype))
        else:
            square.masked_fill_(chosen[:, None], 0.0)
            near = (1 - NEAR * dice.rand((len(square),))).to(tensor.dtype)
            square.diagonal().copy_(torch.where(chosen, near, square.diagonal()))
