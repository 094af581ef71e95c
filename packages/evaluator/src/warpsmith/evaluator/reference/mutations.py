"""How numbers change: random draws right where they are made, and the parameters and buffers of a module.

Every function changes a tensor in place. What a draw stands for is kept: integers their bounds, distinct ones being
distinct, permutations and coin tosses what they are. The range of a floating draw is kept at level `IN_RANGE` only.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch

from warpsmith.evaluator.reference.draw_plan import ANY_SIGN, ANYWHERE, FAR, IN_RANGE, SAME_SIGN, Kind

FARTHEST: Final = {SAME_SIGN: 5.0, ANY_SIGN: 30.0, ANYWHERE: 30.0, FAR: 200.0}
"""How far an outlier may lie by level, in standard deviations of the draw. Beyond 88, `exp` overflows float32."""
LARGE_ROW_OCTAVES: Final = (3.0, 8.0)
"""By which powers of two a large row is multiplied."""
OUTLIERS: Final = 1 / 500
NEARLY_CONSTANT: Final = 0.15
"""What is left of the spread of a nearly constant row: a one-pass variance in single precision still bears it."""
MOST_AT_ONCE: Final = 1 << 26
"""Elements that change at once: a change takes several times their memory, and more of them change part by part."""
MOST_COMPARED: Final = 1 << 20
"""Up to so many integers it is found out whether they are distinct."""
PICKS: Final = 4
"""How many rows get a large number at their first element, and at their last, for each choice of dimensions."""
MOST_DIMS: Final = 4
"""Up to so many dimensions each choice of some of them is taken; beyond, those that end at the last one."""
WHOLLY_NEGATIVE: Final = 0.75
NEGATIVE_SLICES: Final = 0.2
CALM: Final = (0.45, 0.9)
"""How far a nearly constant row lies from the mean of its numbers, in standard deviations: most have one sign."""
TINY_SHARE: Final = 1 / 8
TINY_OCTAVES: Final = (8.0, 16.0)
"""How far below its value a small statistic lies: a variance of one comes to where an eps of 1e-5 is seen."""
SMALL_OCTAVES: Final = (6.0, 16.0)
LESS_SMALL_OCTAVES: Final = (4.0, 8.0)
"""How far below the others small rows and columns lie, and how far where none may become equal in half precision."""
MOST_SORTED: Final = 1 << 16
GRID_OCTAVES: Final = 2
"""How far below the spread of a draw the grid is that it may be rounded to: a few dozen numbers are left of it."""
PLANTED_SHARE: Final = 1 / 16
"""Share of a gridded draw that numbers of the problem's source replace, where they lie in its range."""
ZERO_SHARE: Final = 1 / 64
"""Share of a parameter's elements that become zero, as pruning makes them; of many alone."""
LEAST_PRUNED: Final = 64
FLIPPED_SHARE: Final = 0.3
GROWN_SHARE: Final = 0.3
GROWN_OCTAVES: Final = 2.0
REDUCED_OCTAVES: Final = (4.0, 10.0)
"""How far below what it was a draw as a whole may lie: the norm of all of it is below one."""
"""Shares of a parameter of equal elements that change their sign, or grow; of one element, it always grows."""


def _drawn_by(generator: torch.Generator) -> dict[str, Any]:
    """Return the arguments of a random function of torch that let `generator` draw, where it lives."""
    return {"generator": generator, "device": generator.device}


class Dice:
    """Random numbers for changes, on the device of the tensors that change."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * float(torch.rand((), **_drawn_by(self.generator)))

    def below(self, bound: int) -> int:
        return int(torch.randint(bound, (), **_drawn_by(self.generator)))

    def coin(self) -> bool:
        return self.below(2) == 1

    def rand(self, shape: "torch.Size | tuple[int, ...]") -> torch.Tensor:
        return torch.rand(shape, **_drawn_by(self.generator))

    def rows(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return one number of [0, 1) for each row, to be broadcast; a vector has four parts of one number each."""
        if tensor.dim() > 1:
            return self.rand((*tensor.shape[:-1], 1))
        count = tensor.numel()
        part = torch.arange(count, device=self.generator.device) * 4 // max(count, 1)
        return self.rand((4,))[part].reshape(tensor.shape)


def vary_draw(tensor: torch.Tensor, kind: Kind, level: int, generator: torch.Generator) -> None:
    """Change a random draw of floating or complex numbers as `kind` and `level` ask."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.numel() > MOST_AT_ONCE and tensor.shape[0] > 1:
        for half in tensor.detach().tensor_split(2):
            vary_draw(half, kind, level, generator)
        return
    if not tensor.numel():
        return
    wide = tensor.detach().to(torch.float64 if tensor.dtype == torch.float64 else torch.float32)
    change = _CHANGES[kind] if level > IN_RANGE else _within_range(kind)
    changed = change(wide.clone(), Dice(generator), level)
    if level < ANY_SIGN:
        changed = _as_before(wide, changed)
    most = torch.finfo(tensor.dtype).max
    tensor.detach().copy_(changed.clamp(-most, most))


def to_grid(
    tensor: torch.Tensor, generator: torch.Generator, *, zero: bool, numbers: Sequence[float] = (), rows: bool = False
) -> None:
    """Round a draw to multiples of a power of two, a quarter of its spread at most, within its own range.

    Numbers then lie exactly on boundaries, halfway between integers, and on each other, and stay exact in sums and
    products of few bits: what a kernel does there is not a matter of rounding.

    Args:
        tensor: is changed.
        generator: draws, where the tensor lives.
        zero: whether numbers of one sign may become zero.
        numbers: numbers that the problem may compare with, of which some are written where they lie in the range.
        rows: whether some rows become equal to others.
    """
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if not tensor.numel():
        return
    tensor = tensor.detach()
    wide = tensor.to(torch.float64 if tensor.dtype == torch.float64 else torch.float32)
    low, high = float(wide.min()), float(wide.max())
    if not -math.inf < low < high < math.inf:
        return
    dice = Dice(generator)
    step = 2.0 ** (math.floor(math.log2(_middle_spread(wide))) - GRID_OCTAVES - dice.below(2))
    rounded = (wide / step).round() * step
    if low >= 0 or high <= 0:
        rounded = (wide / step).trunc() * step
        rounded = torch.where((rounded == 0) & (wide != 0) & (not zero), wide, rounded)
    least, most = (min(low, 0.0), max(high, 0.0)) if zero else (low, high)
    rounded = torch.where((rounded < least) | (rounded > most), wide, rounded)
    within = [number for number in numbers if least <= number <= most]
    if within:
        some = torch.tensor(within, dtype=rounded.dtype, device=rounded.device)
        which = torch.randint(len(within), rounded.shape, **_drawn_by(generator))
        rounded = torch.where(dice.rand(rounded.shape) < PLANTED_SHARE, some[which], rounded)
    tensor.copy_(_with_equal_rows(rounded, dice) if rows and rounded.dim() > 1 else rounded)


def share_rows(tensor: torch.Tensor, earlier: torch.Tensor, generator: torch.Generator) -> None:
    """Copy some rows of an earlier draw to a later one: to the same place where both have one form, and to another."""
    one, other = (draw.detach().view(-1, draw.shape[-1]) for draw in (tensor, earlier))
    dice = Dice(generator)
    if tensor.shape == earlier.shape:
        same = dice.below(len(one))
        one[same] = other[same]
    one[dice.below(len(one))] = other[dice.below(len(other))]


def _with_equal_rows(wide: torch.Tensor, dice: Dice) -> torch.Tensor:
    """Copy one slice of the first and of the last but one dimension to another."""
    for dim in {0, wide.dim() - 2}:
        if wide.shape[dim] > 2:
            source, target = dice.below(wide.shape[dim]), dice.below(wide.shape[dim])
            wide.select(dim, target).copy_(wide.select(dim, source).clone())
    return wide


Change = Callable[[torch.Tensor, Dice, int], torch.Tensor]


def _spread(wide: torch.Tensor) -> float:
    spread = float(wide.std()) if wide.numel() > 1 else 0.0
    return spread if 0 < spread < float("inf") else max(float(wide.abs().max()), 1.0)


def _middle_spread(wide: torch.Tensor) -> float:
    """Return the spread of the middle half of some numbers, which a few large ones leave as it is."""
    some = wide.flatten()[:: -(-wide.numel() // MOST_SORTED)].double()
    low, high = torch.quantile(some, torch.tensor([0.25, 0.75], dtype=some.dtype, device=some.device)).tolist()
    return (high - low) / 1.35 or _spread(wide)


def _shifted(wide: torch.Tensor, dice: Dice, level: int) -> torch.Tensor:
    """Make a draw negative, or move it across zero with some slices negative; what comes last is among the least.

    A largest number that begins at zero is wrong only where all numbers are negative.
    """
    factor = dice.between(1.5, 3.0)
    if level < ANY_SIGN:
        return wide * factor
    moved = (wide - wide.mean()) * factor + dice.between(-1.0, 1.0) * _spread(wide)
    moved = _with_ends(moved, dice, -1.5 * float(moved.abs().max()))
    return torch.where(_negative_slices(wide, dice), -moved.abs(), moved)


def _negative_slices(wide: torch.Tensor, dice: Dice) -> torch.Tensor:
    """Return where numbers are to be negative: most often everywhere, or in some slices of each dimension."""
    negative = torch.zeros(wide.shape, dtype=torch.bool, device=dice.generator.device)
    if wide.dim() < 2 or float(dice.rand(())) < WHOLLY_NEGATIVE:
        return ~negative
    for dim in range(wide.dim()):
        chosen = dice.rand(_along(wide, dim))
        negative |= (chosen < NEGATIVE_SLICES) | (chosen == chosen.min())
    return negative


def _along(wide: torch.Tensor, dim: int) -> tuple[int, ...]:
    """Return the shape of one number for each slice of a dimension, to be broadcast."""
    shape = [1] * wide.dim()
    shape[dim] = wide.shape[dim]
    return tuple(shape)


def _scaled(wide: torch.Tensor, dice: Dice, level: int) -> torch.Tensor:
    factor = dice.between(1.5, 4.0) if dice.coin() else 2 ** -dice.between(*REDUCED_OCTAVES)
    return -factor * wide.abs() if level >= ANY_SIGN and dice.coin() else factor * wide


def _outliers(wide: torch.Tensor, dice: Dice, level: int) -> torch.Tensor:
    """Put a few large numbers at secret places, and at the ends of some rows and columns."""
    count = max(1, int(OUTLIERS * wide.numel()))
    places = torch.randint(wide.numel(), (count,), **_drawn_by(dice.generator))
    farthest = FARTHEST[max(level, SAME_SIGN)] * _spread(wide)
    sizes = (1 / 6 + 5 / 6 * dice.rand((count,))) * farthest
    signs = torch.where(dice.rand((count,)) < 0.5, -1.0, 1.0)
    flat = wide.flatten()
    flat[places] = (sizes * signs).to(flat.dtype)
    return _with_ends(flat.reshape(wide.shape), dice, farthest)


def _with_ends(wide: torch.Tensor, dice: Dice, size: float) -> torch.Tensor:
    """Write numbers of about `size` where some rows, columns and slices end, and of the opposite where they begin.

    A reduction that leaves out the last of thousands of elements is wrong there, and right beside rounding elsewhere.
    """
    for chosen in _choices_of_dims(wide.shape):
        picks = [dice.rand((PICKS,)) for _ in range(2)]
        for sign, part in zip((1.0, -1.0), picks, strict=True):
            at = _ends(wide.shape, chosen, dice, last=sign > 0)
            wide[at] = (sign * size * (0.5 + 0.5 * part)).to(wide.dtype)
    return wide


def _choices_of_dims(shape: torch.Size) -> Iterator[tuple[int, ...]]:
    """Yield which dimensions a reduction may be over, as far as these have several elements."""
    dims = [dim for dim, size in enumerate(shape) if size > 1]
    if len(dims) > MOST_DIMS:
        yield from (tuple(dims[start:]) for start in range(len(dims)))
        return
    for count in range(1, len(dims) + 1):
        yield from itertools.combinations(dims, count)


def _ends(shape: torch.Size, chosen: tuple[int, ...], dice: Dice, *, last: bool) -> tuple[torch.Tensor, ...]:
    """Return the indices of `PICKS` elements that are last (or first) in the chosen dimensions, anywhere in others."""
    device = dice.generator.device
    return tuple(
        torch.full((PICKS,), size - 1 if last else 0, device=device)
        if dim in chosen
        else torch.randint(size, (PICKS,), **_drawn_by(dice.generator))
        for dim, size in enumerate(shape)
    )


def _rows(wide: torch.Tensor, dice: Dice, level: int) -> torch.Tensor:
    """Make some rows zero and others nearly constant, and some columns so small that an eps beside them is seen.

    Below `ANYWHERE` no row is zero; `FAR`, some are large.
    """
    chosen = dice.rows(wide)
    middle = wide.mean(-1, keepdim=True) if wide.dim() > 1 else wide.mean()
    side = torch.where(dice.rows(wide) < 0.5, -1.0, 1.0)
    low, high = CALM
    away = side * (low + (high - low) * dice.rows(wide))
    calm = middle + _spread(wide) * away + NEARLY_CONSTANT * (wide - middle)
    changed = torch.where(chosen < 0.6, calm, wide)
    if level == FAR:
        low, high = LARGE_ROW_OCTAVES
        changed = torch.where(chosen > 0.8, wide * torch.exp2(low + (high - low) * dice.rows(wide)), changed)
    changed = _with_small_slices(changed, dice)
    if level < ANYWHERE:
        return changed
    # Where no row happens to be chosen, the first one is.
    zero = (chosen < 0.3) | (chosen == chosen.min()) | _zero_slices(wide, dice)
    if level == FAR:
        # One row is as large as any may be: whether a missing maximum is found must not be a matter of luck.
        left = chosen.masked_fill(zero.all(-1, keepdim=True), -1)
        changed = torch.where(left == left.max(), wide * 2.0**high, changed)
    return changed.masked_fill(zero, 0)


def _zero_slices(wide: torch.Tensor, dice: Dice) -> torch.Tensor:
    """Return where one slice is for each choice of dimensions that a reduction may be over: a pixel, a channel."""
    inside = torch.zeros(wide.shape, dtype=torch.bool, device=dice.generator.device)
    whole = sum(size > 1 for size in wide.shape)
    for chosen in _choices_of_dims(wide.shape):
        if len(chosen) < whole:
            at = [slice(None) if dim in chosen else dice.below(size) for dim, size in enumerate(wide.shape)]
            inside[tuple(at)] = True
    return inside


def _with_small_slices(wide: torch.Tensor, dice: Dice, octaves: tuple[float, float] = SMALL_OCTAVES) -> torch.Tensor:
    """Make some rows and some slices of the second dimension (columns, channels) small, each by a factor of its own."""
    if wide.dim() < 2:
        return wide
    for dim in {1, wide.dim() - 2}:
        shape = _along(wide, dim)
        small = dice.rand(shape) < TINY_SHARE
        small.view(-1)[dice.below(wide.shape[dim])] = True
        low, high = octaves
        wide = torch.where(small, wide * torch.exp2(-(low + (high - low) * dice.rand(tuple(shape)))), wide)
    return wide


def _everything(wide: torch.Tensor, dice: Dice, level: int) -> torch.Tensor:
    """Mix all kinds in one tensor, element by element, beside a row of zeros."""
    which = dice.rand(wide.shape)
    changed = torch.where(which < 0.4, -3.0 * wide, 4.0 * wide)
    changed = torch.where(which < 0.1, wide, changed)
    changed = _outliers(changed, dice, level)
    return _rows(changed, dice, level) if wide.dim() > 1 and level >= ANYWHERE else changed


_CHANGES: Final[dict[str, Change]] = {
    "shifted": _shifted,
    "scaled": _scaled,
    "outliers": _outliers,
    "rows": _rows,
    "small": lambda wide, dice, level: _with_small_slices(wide, dice, LESS_SMALL_OCTAVES),
    "everything": _everything,
}


def _as_before(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """Return the numbers of `after` without a sign that `before` has not, and none of them zero where none was."""
    low, high = float(before.min()), float(before.max())
    if low < 0 < high:
        return after
    after = after.abs() if low >= 0 else -after.abs()
    return torch.where((after == 0) & (before != 0), before, after)


def _within_range(kind: Kind) -> Change:
    """Return a change that keeps a draw between its least and its largest number."""

    def change(wide: torch.Tensor, dice: Dice, level: int) -> torch.Tensor:
        low, high = wide.min(), wide.max()
        width = (high - low).clamp(min=torch.finfo(wide.dtype).tiny)
        part = _UNIT_CHANGES[kind]((wide - low) / width, dice)
        return torch.minimum(torch.maximum(low + part.clamp(0, 1) * width, low), high)

    return change


def _skewed(part: torch.Tensor, dice: Dice) -> torch.Tensor:
    powered = part ** dice.between(2.0, 4.0)
    return _with_extreme_ends(powered if dice.coin() else 1 - powered, dice, 0.0)


def _narrowed(part: torch.Tensor, dice: Dice) -> torch.Tensor:
    share = dice.between(0.1, 0.5)
    return dice.between(0, 1 - share) + share * part


def _at_the_ends(part: torch.Tensor, dice: Dice) -> torch.Tensor:
    chosen = dice.rand(part.shape)
    return _with_extreme_ends(torch.where(chosen < 0.05, part.round(), part), dice, 1.0)


def _with_extreme_ends(part: torch.Tensor, dice: Dice, last: float) -> torch.Tensor:
    """Put `last`, 0 or 1, where some rows, columns and slices end, and the other where they begin."""
    for chosen in _choices_of_dims(part.shape):
        part[_ends(part.shape, chosen, dice, last=False)] = 1 - last
        part[_ends(part.shape, chosen, dice, last=True)] = last
    return part


def _calm_rows(part: torch.Tensor, dice: Dice) -> torch.Tensor:
    calm = dice.rows(part) * (1 - NEARLY_CONSTANT) + NEARLY_CONSTANT * part
    return torch.where(dice.rows(part) < 0.6, calm, part)


_UNIT_CHANGES: Final[dict[str, Callable[[torch.Tensor, Dice], torch.Tensor]]] = {
    "shifted": _skewed,
    "scaled": _narrowed,
    "outliers": _at_the_ends,
    "rows": _calm_rows,
    "small": _narrowed,
    "everything": _skewed,
}


def vary_integers(tensor: torch.Tensor, kind: Kind, low: int, high: int, generator: torch.Generator) -> None:
    """Draw integers of `low` to `high - 1` otherwise: skewed, extreme, or equal; distinct ones stay distinct."""
    if tensor.numel() < 2 or high - low < 2:
        return
    dice = Dice(generator)
    if _are_distinct(tensor):
        start = low + dice.below(high - low - tensor.numel() + 1)
        order = torch.randperm(tensor.numel(), **_drawn_by(generator))
        tensor.copy_((start + order).reshape(tensor.shape))
        return
    part = (tensor.double() - low + dice.rand(tensor.shape)) / (high - low)
    if kind == "rows":
        rows = dice.rows(tensor) if tensor.dim() > 1 else dice.rand((1,))
        part = torch.where(rows < 0.6, rows / 0.6, part) if tensor.dim() > 1 else rows.expand(tensor.shape)
    elif kind == "outliers":
        part = _with_extreme_ends(torch.where(dice.rand(tensor.shape) < 0.5, part.round(), part), dice, 1.0)
    else:
        part = _skewed(part, dice)
    tensor.copy_((low + (part * (high - low)).floor().long()).clamp(low, high - 1))


def _are_distinct(tensor: torch.Tensor) -> bool:
    count = tensor.numel()
    return count <= MOST_COMPARED and int(torch.unique(tensor).numel()) == count


def vary_permutation(tensor: torch.Tensor, kind: Kind, generator: torch.Generator) -> None:
    """Make a permutation the identity, its reverse or a rotation; a random one for other kinds."""
    if kind in {"rows", "small"}:
        tensor.copy_(tensor.sort().values)
    elif kind == "scaled":
        tensor.copy_(tensor.sort(descending=True).values)
    elif kind == "outliers" and tensor.numel():
        tensor.copy_(tensor.sort().values.roll(Dice(generator).below(tensor.numel())))


def vary_tosses(tensor: torch.Tensor, kind: Kind, level: int, generator: torch.Generator) -> None:
    """Toss coins of another bias: more ones, more zeros, or whole rows; some rows hold one other only, at their end.

    Beyond their range, which may be that some row of them is one, whole rows are zeros.
    """
    dice = Dice(generator)
    ones = tensor != 0
    if kind in {"rows", "small"}:
        which = dice.rows(tensor)
        ones |= which < 0.4
        if level > IN_RANGE:
            ones &= (which < 0.7) & (which != which.max())
    elif kind in {"scaled", "everything"}:
        ones &= dice.rand(tensor.shape) < 0.5
        if kind == "everything" and level > IN_RANGE:
            which = dice.rows(tensor)
            ones &= which != which.max()
    else:
        ones |= dice.rand(tensor.shape) < 0.5
    if kind in {"shifted", "outliers"} and tensor.dim() and tensor.numel():
        alone = dice.rows(tensor) < 0.2 if tensor.dim() > 1 else dice.rand(()) < 0.2
        ones = torch.where(alone, kind == "shifted", ones)
        last = torch.zeros_like(ones)
        last[..., -1] = True
        ones = torch.where(alone & last, kind != "shifted", ones)
    tensor.copy_(ones)


def vary_constant(tensor: torch.Tensor, level: int, generator: torch.Generator) -> None:
    """Change a tensor that holds one number everywhere.

    Zeros and ones become both, as masks have them; at `IN_RANGE`, ones get factors around one. Other floating numbers
    get such factors too, integers become a number from one to what they were, one of them staying it.
    """
    value = tensor.flatten()[0].item()
    dice = Dice(generator)
    if tensor.dtype == torch.bool or (value in {0, 1} and level > IN_RANGE):
        tensor.copy_(_some_of_both(tensor, bool(value), dice))
    elif tensor.dtype.is_floating_point and abs(float(value)) < float("inf"):
        tensor.copy_(tensor.double() * torch.exp2(2 * dice.rand(tensor.shape).double() - 1))
    elif not tensor.dtype.is_floating_point and value > 1:
        drawn = torch.randint(1, int(value) + 1, tensor.shape, **_drawn_by(generator))
        tensor.copy_(drawn)
        tensor.view(-1)[dice.below(tensor.numel())] = int(value)


def constant_level(tensor: torch.Tensor) -> int:
    """Return how far a tensor that holds one number may change; `PLAIN` where that would say nothing."""
    if not tensor.numel() or tensor.is_complex() or not tensor.is_contiguous():
        return 0
    value = tensor.flatten()[0].item()
    if value in {0, 1}:
        return IN_RANGE + 1
    return IN_RANGE if 0 < abs(float(value)) < float("inf") and (tensor.dtype.is_floating_point or value > 1) else 0


def _some_of_both(tensor: torch.Tensor, value: bool, dice: Dice) -> torch.Tensor:
    """Return zeros and ones, mostly `value`; the first of a row keeps it, and one element at least does not."""
    flipped = dice.rand(tensor.shape) < 0.3
    if tensor.numel() > 1:
        flipped.view(-1)[1 + dice.below(tensor.numel() - 1)] = True
        flipped[..., 0] &= flipped.shape[-1] == 1
    return flipped ^ value


def vary_table(tensor: torch.Tensor, kind: Kind, generator: torch.Generator) -> None:
    """Scale a table of floating numbers, so that zeros, signs, order and proportions stay."""
    dice = Dice(generator)
    factor = dice.between(1.1, 1.7) if kind in {"shifted", "outliers", "everything"} else dice.between(0.55, 0.9)
    tensor.detach().copy_(tensor.detach() * factor)


def perturb(tensor: torch.Tensor, generator: torch.Generator, *, upwards: bool = False, grows: bool = False) -> None:
    """Add noise of half the tensor's own spread.

    Where all elements are equal the noise is 0.1, and some elements change their sign or are several times as large: a
    gain of ones is negative somewhere, and a slope of 0.25 exceeds one.

    Args:
        tensor: is changed.
        generator: draws, where the tensor lives.
        upwards: whether no element becomes less than it was.
        grows: whether it grows as a whole: a recurrence that contracted has a memory then. Some elements become zero.
    """
    wide, dice = tensor.double(), Dice(generator)
    spread = float(wide.std()) if tensor.numel() > 1 else 0.0
    noise = torch.randn(tensor.shape, dtype=torch.float64, **_drawn_by(generator))
    if upwards:
        tensor.copy_(wide + (0.5 * spread or 0.1) * noise.abs())
        return
    if spread > 0:
        factor = 2 ** dice.between(0.0, GROWN_OCTAVES) if grows else 1.0
        changed = factor * (wide + 0.5 * spread * noise)
        if grows and tensor.numel() >= LEAST_PRUNED:
            changed = changed.masked_fill(dice.rand(tensor.shape) < ZERO_SHARE, 0)
        tensor.copy_(changed)
        return
    which = dice.rand(tensor.shape) if tensor.numel() > 1 else torch.full_like(wide, FLIPPED_SHARE)
    grown = torch.where(which < FLIPPED_SHARE + GROWN_SHARE, wide * dice.between(3.0, 6.0), wide)
    tensor.copy_(torch.where(which < FLIPPED_SHARE, -wide, grown) + 0.1 * noise)


def vary(tensor: torch.Tensor, generator: torch.Generator) -> None:
    """Change finite floating numbers; leave masks, and tensors with infinities, as they are.

    Where none is negative, each is multiplied by a factor in [0.5, 2], and a few by one so small that an eps beside it
    is seen. Zeros alone, and signed numbers, get noise.
    """
    wide = tensor.double()
    if not bool(torch.isfinite(wide).all()) or is_mask(wide):
        return
    if bool((wide < 0).any()) or not bool(wide.any()):
        perturb(tensor, generator)
        return
    scale(tensor, 1.0, generator)
    if tensor.numel() > 1:
        dice = Dice(generator)
        tiny = dice.rand(tensor.shape) < TINY_SHARE
        tiny.view(-1)[dice.below(tensor.numel())] = True
        tensor.copy_(torch.where(tiny, tensor.double() * 2 ** -dice.between(*TINY_OCTAVES), tensor.double()))


def scale(tensor: torch.Tensor, octaves: float, generator: torch.Generator) -> None:
    """Multiply each element by a factor of its own, at most `octaves` powers of two away from one."""
    part = torch.rand(tensor.shape, dtype=torch.float64, **_drawn_by(generator))
    tensor.copy_(tensor.double() * torch.exp2((part * 2 - 1) * octaves))


def is_mask(tensor: torch.Tensor) -> bool:
    """Whether zero and one other number are all that a tensor holds, both of them."""
    if not tensor.numel():
        return False
    peak = tensor.flatten()[tensor.abs().argmax()]
    zeros = tensor == 0
    return bool(zeros.any()) and bool((zeros | (tensor == peak)).all()) and bool(peak != 0)
