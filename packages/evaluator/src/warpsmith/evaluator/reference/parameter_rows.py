"""Parameter rows that noise around the constructor's numbers never gives: zeros, one sign, far away, equal to others.

A table of codes may hold one code twice, a class that was never learned has a weight of zeros, and training can lead to
a logit of 100. Draws of inputs have such rows (`mutations.py`); a parameter's are made here.

Rows may also be alike as a whole. Then all units of a layer answer one number, lower precision rounds all of them in
one direction, and no sum or mean behind it hides that. Where a problem decides, they differ by less than such a
rounding, which then decides.
"""

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

import torch

from warpsmith.evaluator.reference.mutations import Dice, drawn_by

FAR_NUMBERS: Final = 1 / 16
"""Share of a vector's numbers that lie far away."""
FARTHEST: Final = 200.0
"""Their largest size, in spreads of the vector: an exponential of it overflows single precision."""
LEAST_SPREAD: Final = 1.0
"""Training moves what began as zeros, or nearly so."""
LARGE_OCTAVES: Final = (4.0, 7.0)
"""Range of the power of two that multiplies a large row."""
DISTANCE: Final = 2.0**9
"""Distance of a row from zero, in spreads: a variance by E[x^2] - E[x]^2 loses its digits."""

ALIKE_OCTAVES: Final = (10, 13)
"""Range of the power of two below one up to which the sizes of rows differ that are alike where a problem decides.

Of a dozen rows the two largest are then nearer than half precision rounds, 2^-12, and mostly further apart than what
perturbs the reference, 2^-18 to 2^-17.
"""

Row = torch.Tensor
Change = Callable[[Row, Row, float, Random], Row]
"""Maps a row, another row, the parameter's spread and a source of randomness to what the row becomes."""

CHANGES: Final[tuple[Change, ...]] = (
    lambda row, other, spread, rng: torch.zeros_like(row),
    lambda row, other, spread, rng: -row.abs(),
    lambda row, other, spread, rng: row.abs(),
    lambda row, other, spread, rng: other,
    lambda row, other, spread, rng: row + rng.choice((-1, 1)) * DISTANCE * spread,
    lambda row, other, spread, rng: row * 2.0 ** rng.uniform(*LARGE_OCTAVES),
    lambda row, other, spread, rng: row.mean().expand_as(row),
)


def set_apart(tensor: torch.Tensor, generator: torch.Generator) -> None:
    """Change some of a parameter's rows, each in its own way, or a vector as a whole or in a few numbers.

    The rows are slices of the first dimension, such as filters, or of the last one. A single number stays.

    Args:
        tensor: a floating or complex parameter of any shape, changed in place.
        generator: random generator on the tensor's device.
    """
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.numel() < 2:
        return
    wide, dice = tensor.double(), Dice(generator)
    rng, spread = Random(dice.below(1 << 31)), _spread(wide)
    rows = wide.reshape(len(wide), -1) if wide.dim() < 3 or dice.coin() else wide.reshape(-1, wide.shape[-1])
    changed = _with_changed_rows(rows, spread, rng, dice) if rows.shape[1] > 1 else _vector(rows, spread, rng, dice)
    most = torch.finfo(tensor.dtype).max
    tensor.copy_(changed.reshape(tensor.shape).clamp(-most, most))


def _with_changed_rows(rows: torch.Tensor, spread: float, rng: Random, dice: Dice) -> torch.Tensor:
    order = torch.randperm(len(rows), **drawn_by(dice.generator)).tolist()
    changes = rng.sample(CHANGES, len(CHANGES))
    changed, other = rows.clone(), rows[order[-1]]
    for at, change in zip(order[: max(len(rows) - 1, 1)], changes, strict=False):
        changed[at] = change(rows[at], other, spread, rng)
    return changed


def _vector(numbers: torch.Tensor, spread: float, rng: Random, dice: Dice) -> torch.Tensor:
    """Give all numbers one sign, or put a few far away, with a zero and two equal ones."""
    if rng.random() < 1 / 3:
        return rng.choice((-1, 1)) * numbers.abs()
    changed, count = numbers.clone(), len(numbers)
    order = torch.randperm(count, **drawn_by(dice.generator)).tolist()
    few = max(2, int(FAR_NUMBERS * count))
    for turn, at in enumerate(order[:few]):
        sign = -1.0 if turn % 2 else 1.0
        changed[at] = sign * rng.uniform(0.5, 1.0) * FARTHEST * max(spread, LEAST_SPREAD)
    for at, number in zip(order[few : few + 2], (0.0, float(numbers[order[-1]])), strict=False):
        changed[at] = number
    return changed


def _spread(wide: torch.Tensor) -> float:
    """Return the standard deviation; if all numbers are equal, their magnitude, or one."""
    spread = float(wide.std())
    return spread if 0 < spread < math.inf else float(wide.abs().max()) or 1.0


def make_alike(tensor: torch.Tensor, generator: torch.Generator, *, decides: bool) -> None:
    """Make all rows of a parameter equal to one of them, or nearly so; sometimes its columns, or all numbers.

    A single number stays.

    Args:
        tensor: a floating or complex parameter of any shape, changed in place.
        generator: random generator on the tensor's device.
        decides: whether the problem decides by numbers that it rounds: then the rows differ a little in size.
    """
    dice = Dice(generator)
    if tensor.numel() < 2:
        return
    # A layer's units are the rows of its weight, and the columns where a problem multiplies by a matrix of its own.
    by_column = tensor.dim() > 1 and dice.below(4) == 0
    wide = tensor.double() if not tensor.is_complex() else tensor.to(torch.complex128)
    units = wide.transpose(0, -1) if by_column else wide
    one = units[dice.below(len(units))]
    if dice.below(4) == 0:
        one = one.reshape(-1)[dice.below(one.numel())].expand_as(one)
    size = torch.ones(len(units), device=tensor.device, dtype=torch.float64)
    if decides:
        low, high = ALIKE_OCTAVES
        size += 2.0 ** -(low + dice.below(high - low + 1)) * dice.rand((len(units),)).double()
    alike = one.expand_as(units) * size.reshape(-1, *[1] * (units.dim() - 1))
    tensor.copy_(alike.transpose(0, -1) if by_column else alike)


def share_row(parameter: torch.Tensor, inputs: Sequence[torch.Tensor], generator: torch.Generator) -> None:
    """Copy a row of an input of the same width and dtype to a row of a parameter: a point lies on a center.

    Args:
        parameter: of two or more dimensions, changed in place; others stay.
        inputs: the tensors of an input set.
        generator: random generator on the parameter's device.
    """
    dice, width = Dice(generator), parameter.shape[-1] if parameter.dim() > 1 else 0
    alike = [one for one in inputs if one.dim() > 1 and one.shape[-1] == width and one.dtype == parameter.dtype]
    some = [one for one in alike if one.numel()]
    if parameter.numel() and width > 1 and some:
        source = some[dice.below(len(some))].reshape(-1, width)
        # By position, since a parameter that keeps its strides has no view of its rows.
        parameter[tuple(dice.below(size) for size in parameter.shape[:-1])] = source[dice.below(len(source))]
