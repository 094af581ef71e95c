"""Changes numbers: random draws as soon as they are made, and the parameters and buffers of a module.

Every function changes a tensor in place and preserves what a draw stands for: the bounds and the distinctness of
integers, permutations, coin tosses. The range of a floating draw is preserved at level `IN_RANGE` only.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch

from warpsmith.evaluator.reference.draw_plan import TAILED, WHOLLY_FAR, Kind
from warpsmith.evaluator.reference.levels import ANY_SIGN, ANYWHERE, FAR, FAR_IN_HALF, IN_RANGE, SAME_SIGN
from warpsmith.evaluator.reference.one_sided_tails import round_down_in_half, with_plain_norms
from warpsmith.evaluator.reference.telling_numbers import LARGEST_NUMBER, NUMBER_STEPS

FARTHEST: Final = {SAME_SIGN: 5.0, ANY_SIGN: 30.0, ANYWHERE: 30.0, FAR_IN_HALF: 110.0, FAR: 200.0}
"""Largest distance of an outlier by level, in standard deviations of the draw. Beyond 88, `exp` overflows float32."""
LARGE_ROW_OCTAVES: Final = (3.0, 8.0)
"""Range of the power of two that multiplies a large row."""
LEAST_ROWS: Final = 8
"""Rows of a tensor that gets a remote one, or a tiny one."""
TINY_ROW: Final = 2.0**-45
"""Factor of a tiny row: its norm is below every usual eps, and its squares and their sums are normal numbers. Adding it
to a one gives equal numbers in the whole row: a problem that ranks such sums is known to order equal numbers."""
ROW_WIDTH: Final = 3.5
"""Distance between the ends of a row whose numbers stay apart, in standard deviations of the draw."""
LEAST_APART: Final = 2.0**-15
"""Least distance between two neighbours in it, as a share of the row's distance from zero: four times the perturbation
that measures the conditioning (`correctness/spread.py`)."""
ROOMY: Final = frozenset({torch.float32, torch.float64})
"""Dtypes in which products and sums of a few remote numbers stay finite."""
MOST_IN_HALF: Final = 2.0**14
"""Replaces a number that overflows half precision: sums of three such numbers do not overflow."""
DISTANT: Final = {ANY_SIGN: 30.0, ANYWHERE: 72.0, FAR_IN_HALF: 128.0, FAR: 2.0**10}
"""Distance of a whole draw from zero by level, in standard deviations. At 2^10 a variance by E[x^2] - E[x]^2 in single
precision has lost most of its digits, and a variance by deviations from the mean hardly any. The exponential of 72 is
finite, and products of two such draws summed over 16 are beyond the -1e4 that some kernels use for minus infinity."""
OUTLIERS: Final = 1 / 500
LONE_PEAKS: Final = 2
"""How many rows have one large number at an even place, and how many at an odd one."""
WHOLLY_ALIKE: Final = 1 / 6
"""How often all numbers of a draw, instead of some rows, become zeros or one number."""
SHARED: Final = 1 / 8
"""Share of an integer draw, or of a gridded draw's rows, that becomes equal to an earlier one of the same range."""
NEARLY_CONSTANT: Final = 0.15
"""Remaining share of the spread of a nearly constant row; a one-pass variance in single precision tolerates it."""
MOST_AT_ONCE: Final = 1 << 26
"""Elements changed at a time: a change needs several times their memory. Larger tensors are changed in parts."""
MOST_COMPARED: Final = 1 << 20
"""Maximum number of integers checked for distinctness."""
PICKS: Final = 4
"""How many rows get a large number at their first element, and at their last, per choice of dimensions."""
MOST_ENDS: Final = 2
"""How many numbers become each end of their draw's range."""
MOST_DIMS: Final = 4
"""Up to this many dimensions, every subset is a choice; beyond it, only those that end at the last dimension."""
WHOLLY_NEGATIVE: Final = 0.75
NEGATIVE_SLICES: Final = 0.2
WHOLLY_OF_ONE_SIGN: Final = 0.25
WHOLLY_POSITIVE: Final = 0.75
"""How often all numbers of a draw get one sign, and how often that is plus: other kinds make more of them negative."""
OF_LAST: Final = 0.15
CALM: Final = (0.45, 0.9)
"""Distance of a nearly constant row from the mean of the draw, in standard deviations: most have one sign."""
TINY_SHARE: Final = 1 / 8
TINY_OCTAVES: Final = (8.0, 16.0)
"""Range of octaves by which a small statistic shrinks: a variance of one gets so small that an eps of 1e-5 matters."""
SMALL_OCTAVES: Final = (6.0, 16.0)
LESS_SMALL_OCTAVES: Final = (4.0, 8.0)
"""Range of octaves by which small rows and columns shrink; the second avoids new ties in half precision."""
SMALL_ROW_OCTAVES: Final = (7.0, 12.0)
"""The same for the one row that is always small."""
MOST_SORTED: Final = 1 << 16
GRID_OCTAVES: Final = 2
"""Octaves between the spread of a draw and the step of its grid: a few dozen distinct numbers remain."""
FINE_OCTAVES: Final = 8
FINE_ROWS: Final = 1 / 2
"""The same for the finer grid, and the share of rows on it: numbers scaled by a power of two lie on halves there."""
PLANTED_SHARE: Final = 1 / 16
"""Share of a gridded draw that is replaced by numbers of the problem's source that are in its range."""
SPARSE: Final = 4
LEAST_SPARSE: Final = 8
"""Slices of a draw that are on a sparse grid, if it has at least that many."""
BOUNDED_SHARE: Final = 1 / 4
"""Share of a gridded draw's slices whose largest number is one of the source, and of those whose least one is."""
BOUND_REACH: Final = 3.0
"""Distance of such a number from the middle of the draw, in its spreads: beyond it, few slices would reach it."""
WRITTEN_SHARE: Final = 1 / 32
"""The same for numbers of the candidate's source."""
LONG_ROWS: Final = 1 / 4
LONG_SHARE: Final = 1 / 4
"""Share of a gridded draw's rows with numbers of many bits, and their share of such a row."""
LEAST_PLANTED: Final = 4
"""Rows that get numbers of many bits in any case: afterwards one or two of them may become a copy of another."""
SORTING: Final[frozenset[Kind]] = frozenset({"scaled", "distant", "apart"})
"""Kinds that sort two rows of a draw."""
GATHERING: Final[frozenset[Kind]] = frozenset({"shifted", "scaled", "distant", "apart"})
"""Kinds in which the largest numbers of a row have a power of two of places between them, and so do the least."""
GATHERED: Final = 4
"""How many of them."""
BENDING: Final[frozenset[Kind]] = frozenset({"shifted", "outliers", "scaled", "everything"})
"""Kinds that bend tables."""
BENT_OCTAVES: Final = (0.3, 0.6)
"""Range of the logarithm, to base two, of the power by which a table is bent, or of its inverse."""
ZERO_SHARE: Final = 1 / 64
"""Share of a parameter's elements that become zero, as in pruning."""
LEAST_PRUNED: Final = 64
"""Smallest parameter with pruned elements."""
LEAST_STRUCTURE: Final = 4
FEW: Final = 64
"""Minimum elements for a tensor to be taken for a mask, or for a row of positions."""
MOST_ROLLED: Final = 1024
"""Maximum rows of positions that are rolled separately."""
FLIPPED_SHARE: Final = 0.3
GROWN_SHARE: Final = 0.3
"""Shares of a parameter of equal elements that change sign, or grow; a parameter of one element always grows."""
GROWN_OCTAVES: Final = 2.0
REDUCED_OCTAVES: Final = (4.0, 10.0)
"""Range of octaves by which a whole draw can shrink: its norm becomes less than one."""


def drawn_by(generator: torch.Generator) -> dict[str, Any]:
    """Return the arguments that make a random function of torch use `generator`, on its device."""
    return {"generator": generator, "device": generator.device}


class Dice:
    """Random numbers for changes, on the device of the tensors that change."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * float(torch.rand((), **drawn_by(self.generator)))

    def below(self, bound: int) -> int:
        return int(torch.randint(bound, (), **drawn_by(self.generator)))

    def coin(self) -> bool:
        return self.below(2) == 1

    def shuffled(self, items: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the items in a random order."""
        return [items[at] for at in torch.randperm(len(items), **drawn_by(self.generator)).tolist()]

    def rand(self, shape: "torch.Size | tuple[int, ...]") -> torch.Tensor:
        return torch.rand(shape, **drawn_by(self.generator))

    def rows(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return one number of [0, 1) per row, broadcastable; a vector has four parts with one number each."""
        if tensor.dim() > 1:
            return self.rand((*tensor.shape[:-1], 1))
        count = tensor.numel()
        part = torch.arange(count, device=self.generator.device) * 4 // max(count, 1)
        return self.rand((4,))[part].reshape(tensor.shape)


def vary_draw(
    tensor: torch.Tensor,
    kind: Kind,
    level: int,
    generator: torch.Generator,
    *,
    opposite: bool = False,
    remote: int = 0,
) -> None:
    """Change a random draw of floating or complex numbers by `kind` and `level`.

    Args:
        tensor: the draw, changed in place.
        kind: how it changes.
        level: how far it may.
        generator: source of the randomness, on the tensor's device.
        opposite: whether the signs are flipped.
        remote: power of two of the distance of remote rows, in standard deviations; 0 for none.
    """
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.numel() > MOST_AT_ONCE and tensor.shape[0] > 1:
        for half in tensor.detach().tensor_split(2):
            vary_draw(half, kind, level, generator, opposite=opposite, remote=remote)
        return
    if not tensor.numel():
        return
    wide = tensor.detach().to(torch.float64 if tensor.dtype == torch.float64 else torch.float32)
    one_sign = False
    if kind in WHOLLY_FAR and tensor.dtype != torch.float32:
        # Half precision lacks the digits for it, and in double precision a bad variance is within the tolerance.
        kind, one_sign = "scaled", True
    change = _CHANGES[kind] if level > IN_RANGE else _within_range(kind)
    changed = change(wide.clone(), Dice(generator), level)
    if remote and tensor.dtype in ROOMY:
        changed = _with_remote_rows(changed, wide, Dice(generator), 2.0**remote)
    changed = changed.abs() if one_sign and level >= ANY_SIGN else changed
    if level < ANY_SIGN:
        changed = _as_before(wide, changed)
    elif opposite:
        changed = -changed
    if kind in TAILED:
        changed = _with_tails(changed, wide, kind, level)
    if kind in GATHERING:
        changed = _with_gathered_extremes(changed, Dice(generator))
    if kind in SORTING:
        changed = _with_sorted_rows(changed, Dice(generator))
    most = torch.finfo(tensor.dtype).max
    tensor.detach().copy_(changed.clamp(-most, most))


def _with_tails(changed: torch.Tensor, wide: torch.Tensor, kind: Kind, level: int) -> torch.Tensor:
    """Give numbers low bits that half precision drops, also after a division by the norm or the RMS of their row.

    All draws of a trial agree on which of the two.
    """
    if level <= IN_RANGE:
        return round_down_in_half(changed).clamp(wide.min(), wide.max())
    return with_plain_norms(changed, mean=kind == "shifted")


def _with_sorted_rows(wide: torch.Tensor, dice: Dice) -> torch.Tensor:
    """Sort one row upwards and one downwards: an argsort of the draw then has runs as long as the row."""
    if wide.dim() < 2 or wide.shape[-1] < LEAST_STRUCTURE or wide.numel() < LEAST_STRUCTURE * wide.shape[-1]:
        return wide
    rows = wide.reshape(-1, wide.shape[-1])
    first = dice.below(len(rows))
    other = (first + 1 + dice.below(len(rows) - 1)) % len(rows)
    for row, descending in ((rows[first], False), (rows[other], True)):
        row.copy_(row.sort(descending=descending).values)
    return rows.reshape(wide.shape)


def _with_gathered_extremes(wide: torch.Tensor, dice: Dice) -> torch.Tensor:
    """Exchange numbers within rows so that the largest ones are evenly apart, and the least ones elsewhere.

    A kernel that keeps the best of each bucket, or of each lane, loses the second best if both are in one. Rows take
    turns with the powers of two between neighbours.
    """
    if wide.dim() < 2 or wide.shape[-1] < GATHERED**2:
        return wide
    rows = wide.reshape(-1, wide.shape[-1])
    some = torch.randperm(len(rows), **drawn_by(dice.generator))[:MOST_ROLLED]
    moved, count = rows[some], rows.shape[1]
    most = int(math.log2((count - 2) // GATHERED)) + 1
    turns = torch.arange(len(moved), device=moved.device) + dice.below(most)
    for sign in (1.0, -1.0):
        apart = 2 ** (turns % most)
        first = 1 + (dice.rand((len(moved),)) * (count - 1 - (GATHERED - 1) * apart - 1)).long()
        for rank in range(GATHERED):
            source = (sign * moved).topk(rank + 1, -1).indices[:, rank:]
            target = (first + rank * apart)[:, None]
            extreme, other = moved.gather(-1, source), moved.gather(-1, target)
            moved = moved.scatter(-1, source, other).scatter(-1, target, extreme)
        turns = turns + 1 + dice.below(most)
    return rows.index_copy(0, some, moved).reshape(wide.shape)


def to_grid(
    tensor: torch.Tensor,
    generator: torch.Generator,
    *,
    zero: bool,
    numbers: Sequence[float] = (),
    long_numbers: Sequence[float] = (),
    written: Sequence[float] = (),
    rows: bool = False,
) -> None:
    """Round a draw to multiples of powers of two, at most a quarter of its spread, within its own range.

    Some rows are on a finer grid. Others have so few bits that products of them are exact.

    Numbers then lie exactly on boundaries, halfway between integers, and on each other, and sums and products of few
    bits are exact: a wrong result there cannot be explained by rounding.

    Args:
        tensor: changed in place.
        generator: random generator on the tensor's device.
        zero: whether numbers of one sign can become zero.
        numbers: numbers of few bits that the problem may compare with; those in the range replace some elements.
        long_numbers: numbers of many bits, such as 0.1. They are rounded to single precision, replace elements of few
            rows only, as sums with them are not exact, and are left out in other dtypes: a kernel that computes in
            single precision compares a half with another 0.1 than torch does.
        written: numbers of the candidate's source, at which it may act differently. Those in the range, of either sign,
            replace some elements, each with its neighbours; they have their own share, so that many of them take no
            room from the problem's own.
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
    step = _grid_steps(wide, dice)
    rounded = (wide / step).round() * step
    if low >= 0 or high <= 0:
        rounded = (wide / step).trunc() * step
        rounded = torch.where((rounded == 0) & (wide != 0) & (not zero), wide, rounded)
    least, most = (min(low, 0.0), max(high, 0.0)) if zero else (low, high)
    rounded = torch.where((rounded < least) | (rounded > most), wide, rounded)
    short, long = _neighbourhood(written, tensor.dtype)
    for given, share in ((numbers, PLANTED_SHARE), (short, WRITTEN_SHARE)):
        rounded = _with_numbers(rounded, [one for one in given if least <= one <= most], dice, share)
    if tensor.dtype == torch.float32:
        rounded = _with_long_numbers(rounded, (low, high), dice, long_numbers, long)
    telling = dict.fromkeys([*numbers, *short, *(long_numbers if tensor.dtype == torch.float32 else ())])
    rounded = _with_bounded_slices(rounded, [one for one in telling if low < one < high], dice)
    rounded = _with_equal_extremes(rounded, dice)
    tensor.copy_(_with_equal_rows(rounded, dice) if rows and rounded.dim() > 1 else rounded)


def _grid_steps(wide: torch.Tensor, dice: Dice) -> torch.Tensor:
    """Return the step of each row's grid, broadcastable."""
    spread = math.floor(math.log2(_middle_spread(wide)))
    coarse, fine = 2.0 ** (spread - GRID_OCTAVES - dice.below(2)), 2.0 ** (spread - FINE_OCTAVES)
    return torch.where(dice.rows(wide) < FINE_ROWS, fine, coarse).to(wide.dtype)


def _with_long_numbers(
    wide: torch.Tensor, within: tuple[float, float], dice: Dice, numbers: Sequence[float], written: Sequence[float]
) -> torch.Tensor:
    """Replace elements of a few rows by numbers of many bits within a range: those of the problem and the candidate."""
    low, high = within
    ranks = dice.rows(wide)
    chosen = ranks <= max(LONG_ROWS, float(ranks.flatten().kthvalue(min(LEAST_PLANTED, ranks.numel())).values))
    planted = _with_numbers(wide, [one for one in numbers if low <= one <= high], dice, LONG_SHARE)
    planted = _with_numbers(planted, [one for one in written if low <= one <= high], dice, PLANTED_SHARE)
    return torch.where(chosen, planted, wide)


def to_sparse_grid(tensor: torch.Tensor, generator: torch.Generator, **settings: Any) -> None:
    """Round a few slices of a draw to a grid, and make half of these begin with a zero.

    For draws that tolerate no grid as a whole: among dozens of small matrices on a grid one is singular. A zero in its
    first place does not make a matrix singular. The settings are those of `to_grid`.
    """
    if tensor.dim() < 2 or len(tensor) < LEAST_SPARSE:
        return
    on_grid = tensor.detach().clone()
    to_grid(on_grid, generator, **settings)
    order = torch.randperm(len(tensor), **drawn_by(generator))[:SPARSE]
    low, high = float(tensor.min()), float(tensor.max())
    for number, at in enumerate(order.tolist()):
        tensor[at] = on_grid[at]
        if number % 2 == 0 and low < 0 < high:
            tensor[(at, *[0] * (tensor.dim() - 1))] = 0


def _neighbourhood(written: Sequence[float], dtype: torch.dtype) -> tuple[list[float], list[float]]:
    """Return the numbers of few bits among those of a candidate's source, and the others with all neighbours.

    A number of few bits lies on a grid, or nearly so. On either side of it, one rounding away, a comparison differs.
    """
    step = float(torch.finfo(dtype).eps)
    signed = [sign * float(number) for number in written if number for sign in (1, -1)]
    short = [number for number in signed if (number * NUMBER_STEPS).is_integer() and abs(number) <= LARGEST_NUMBER]
    beside = [number * (1 + side * step) for number in signed for side in (1, -1)]
    return short, [*(number for number in signed if number not in set(short)), *beside]


def _with_numbers(
    wide: torch.Tensor, numbers: Sequence[float], dice: Dice, share: float = PLANTED_SHARE
) -> torch.Tensor:
    """Replace a share of the elements by some of the numbers."""
    if not numbers:
        return wide
    some = torch.tensor(numbers, dtype=wide.dtype, device=wide.device)
    which = torch.randint(len(numbers), wide.shape, **drawn_by(dice.generator))
    return torch.where(dice.rand(wide.shape) < share, some[which], wide)


def plant(
    tensor: torch.Tensor,
    generator: torch.Generator,
    numbers: Sequence[float],
    long_numbers: Sequence[float],
    written: Sequence[float] = (),
) -> None:
    """Replace some elements of a gridded draw that was scaled or moved by the numbers of `to_grid`, except zero."""
    single = tensor.dtype == torch.float32
    wide = tensor.detach().to(torch.float64 if tensor.dtype == torch.float64 else torch.float32)
    low, high = float(wide.min()), float(wide.max())
    short, long = _neighbourhood(written, tensor.dtype)
    for given, share in (
        ([*numbers, *(long_numbers if single else ())], PLANTED_SHARE),
        ([*short, *(long if single else ())], WRITTEN_SHARE),
    ):
        wide = _with_numbers(wide, [one for one in given if one and low <= one <= high], Dice(generator), share)
    tensor.detach().copy_(wide)


def share_rows(tensor: torch.Tensor, earlier: torch.Tensor, generator: torch.Generator) -> None:
    """Copy some rows of an earlier draw to a later one: to the same place if the shapes agree, and to another place."""
    one, other = (draw.detach().view(-1, draw.shape[-1]) for draw in (tensor, earlier))
    dice = Dice(generator)
    if tensor.shape == earlier.shape:
        same = dice.rand((len(one),)) < SHARED
        same[dice.below(len(one))] = True
        one[same] = other[same]
    one[dice.below(len(one))] = other[dice.below(len(other))]


def share_slices(tensor: torch.Tensor, earlier: torch.Tensor) -> None:
    """Copy half of the slices along the first dimension of an earlier draw of this shape to other places of this one.

    Half precision then rounds both operands of some products alike, and a loss of similarities is mostly theirs.
    """
    half = len(tensor) // 2
    tensor.detach()[:half] = earlier[len(earlier) - half :]


def _with_bounded_slices(wide: torch.Tensor, numbers: Sequence[float], dice: Dice) -> torch.Tensor:
    """Make a number of the source the largest or the least of some slices: an extreme exactly on an edge."""
    middle, reach = float(wide.median()), BOUND_REACH * _middle_spread(wide)
    near = [one for one in numbers if abs(one - middle) < reach]
    if not near or not wide.dim():
        return wide
    shape = _shape_of_slices(wide, dice)
    bound = torch.tensor(near, dtype=wide.dtype, device=wide.device)
    bound = bound[torch.randint(len(near), shape, **drawn_by(dice.generator))]
    chosen = dice.rand(shape)
    bounded = torch.where(chosen < BOUNDED_SHARE, wide.minimum(bound), wide)
    return torch.where(chosen > 1 - BOUNDED_SHARE, wide.maximum(bound), bounded)


def _with_equal_extremes(wide: torch.Tensor, dice: Dice) -> torch.Tensor:
    """Duplicate the largest number of some rows at another place in them, and the least one of others.

    If several are the largest, it matters which of them a kernel takes.
    """
    if not wide.dim() or wide.shape[-1] < LEAST_STRUCTURE:
        return wide
    ranks = dice.rows(wide) if wide.dim() > 1 else dice.rand((1,))
    for extreme, chosen in (
        (wide.amax(-1, keepdim=True), (ranks < SHARED) | (ranks == ranks.min())),
        (wide.amin(-1, keepdim=True), (ranks > 1 - SHARED) | (ranks == ranks.max())),
    ):
        place = torch.randint(wide.shape[-1], ranks.shape, **drawn_by(dice.generator))
        kept = wide.gather(-1, place)
        wide = wide.scatter(-1, place, torch.where(chosen, extreme, kept))
    return wide


def _with_equal_rows(wide: torch.Tensor, dice: Dice) -> torch.Tensor:
    """Copy one slice to another along the first and along the second-to-last dimension."""
    for dim in {0, wide.dim() - 2}:
        if wide.shape[dim] > 2:
            source, apart = dice.below(wide.shape[dim]), 1 + dice.below(wide.shape[dim] - 1)
            target = (source + apart) % wide.shape[dim]
            wide.select(dim, target).copy_(wide.select(dim, source).clone())
    return wide


def keep_extremes(tensor: torch.Tensor, before: torch.Tensor) -> None:
    """Put the least and the largest number that a draw had back to their places, if it has lost them."""
    if not tensor.is_contiguous() or not tensor.numel():
        return
    flat, old = tensor.view(-1), before.view(-1)
    for at in (old.argmin(), old.argmax()):
        if not bool((flat == old[at]).any()):
            flat[at] = old[at]


def saturate(made: torch.Tensor, sources: Sequence[torch.Tensor]) -> None:
    """Replace the infinities that finite numbers became in half precision by large numbers.

    A far draw overflows where the code casts or scales it. Infinities say nothing about a kernel, so it would have to
    stay near; a clamp, or subtracting the maximum, handles the large numbers.
    """
    if bool(torch.isinf(made).any()) and all(bool(torch.isfinite(one).all()) for one in sources):
        made.copy_(torch.nan_to_num(made, nan=math.nan, posinf=MOST_IN_HALF, neginf=-MOST_IN_HALF))


Change = Callable[[torch.Tensor, Dice, int], torch.Tensor]


def _spread(wide: torch.Tensor) -> float:
    spread = float(wide.std()) if wide.numel() > 1 else 0.0
    return spread if 0 < spread < float("inf") else max(float(wide.abs().max()), 1.0)


def _middle_spread(wide: torch.Tensor) -> float:
    """Return the spread of the middle half of the numbers, which a few large ones do not affect."""
    some = wide.flatten()[:: -(-wide.numel() // MOST_SORTED)].double()
    low, high = torch.quantile(some, torch.tensor([0.25, 0.75], dtype=some.dtype, device=some.device)).tolist()
    return (high - low) / 1.35 or _spread(wide)


def _shifted(wide: torch.Tensor, dice: Dice, level: int) -> torch.Tensor:
    """Make a draw negative, or move it across zero with some slices negative; the last elements are among the least.

    A running maximum that starts at zero is wrong only if all numbers are negative.
    """
    factor = dice.between(1.5, 3.0)
    if level < ANY_SIGN:
        return wide * factor
    moved = (wide - wide.mean()) * factor + dice.between(-1.0, 1.0) * _spread(wide)
    moved = _with_ends(moved, dice, -1.5 * float(moved.abs().max()))
    return torch.where(_negative_slices(wide, dice), -moved.abs(), moved)


def _with_remote_rows(changed: torch.Tensor, wide: torch.Tensor, dice: Dice, distance: float) -> torch.Tensor:
    """Move one row as a whole far below all others, and another one far above.

    A maximum that starts at 0, at -1000 or at -1e4 instead of minus infinity is wrong only in such rows. A maximum of
    all numbers that starts at 0 shows where a draw is distant; in double precision, which has no such trial, there is
    no row above if all numbers are negative.
    """
    ranks = dice.rows(changed)
    if changed.dim() < 2 or ranks.numel() < LEAST_ROWS:
        return changed
    below, above = ranks.flatten().topk(2).values
    far = distance * (_spread(wide) + wide.abs())
    moved = torch.where(ranks == below, -far, changed)
    return torch.where(ranks == above, far, moved) if wide.dtype == torch.float32 or changed.max() > 0 else moved


def _negative_slices(wide: torch.Tensor, dice: Dice) -> torch.Tensor:
    """Return a mask of numbers to make negative: usually all, otherwise some slices of each dimension."""
    negative = torch.zeros(wide.shape, dtype=torch.bool, device=dice.generator.device)
    if wide.dim() < 2 or float(dice.rand(())) < WHOLLY_NEGATIVE:
        return ~negative
    for dim in range(wide.dim()):
        chosen = dice.rand(_along(wide, dim))
        negative |= (chosen < NEGATIVE_SLICES) | (chosen == chosen.min())
    return negative


def _along(wide: torch.Tensor, dim: int) -> tuple[int, ...]:
    """Return the broadcastable shape of one number per slice of a dimension."""
    shape = [1] * wide.dim()
    shape[dim] = wide.shape[dim]
    return tuple(shape)


def _distant(wide: torch.Tensor, dice: Dice, level: int) -> torch.Tensor:
    """Move a draw as a whole far from zero, so that its mean far exceeds its spread in every row and column."""
    if level < ANY_SIGN:
        return wide * dice.between(1.5, 3.0)
    # Draws of similar spread move by the same distance, so that differences between them lose digits too.
    return wide + DISTANT[level] * 2.0 ** round(math.log2(_spread(wide)))


def _apart(wide: torch.Tensor, dice: Dice, level: int) -> torch.Tensor:
    """Move a draw as a whole far from zero, and spread each row's numbers, so that rounding cannot reorder them.

    At a distance of a thousand standard deviations, some of a few hundred random numbers are equal.
    """
    if level < ANY_SIGN:
        return wide * dice.between(1.5, 3.0)
    spread, count = _spread(wide), wide.shape[-1] if wide.dim() else 1
    distance = DISTANT[level] * 2.0 ** round(math.log2(spread))
    step = max(ROW_WIDTH * spread / count, LEAST_APART * distance)
    rank = wide.argsort(-1).argsort(-1).to(wide.dtype) if wide.dim() else wide
    return distance + step * (rank - (count - 1) / 2 + (dice.rand(wide.shape) - 0.5) / 2)


def _scaled(wide: torch.Tensor, dice: Dice, level: int) -> torch.Tensor:
    """Make a draw larger or much smaller, and some slices of it positive and some negative.

    A kernel that skips values below a threshold is exposed only by small numbers. One that pads the end of a row with
    zeros is exposed if a maximum is negative, or a minimum positive, and the row is not a whole number of blocks: other
    shapes come with this change.
    """
    factor = 2 ** -dice.between(*REDUCED_OCTAVES) if dice.coin() else dice.between(1.5, 4.0)
    return _with_one_sign(factor * wide, dice) if level >= ANY_SIGN else factor * wide


def _with_one_sign(wide: torch.Tensor, dice: Dice) -> torch.Tensor:
    """Give a third of some slices each sign as a whole, or occasionally all numbers one sign."""
    shape = _shape_of_slices(wide, dice)
    if math.prod(shape) == 1 or float(dice.rand(())) < WHOLLY_OF_ONE_SIGN:
        return wide.abs() if float(dice.rand(())) < WHOLLY_POSITIVE else -wide.abs()
    chosen = dice.rand(shape)
    return torch.where(chosen < 1 / 3, -wide.abs(), torch.where(chosen > 2 / 3, wide.abs(), wide))


def _shape_of_slices(wide: torch.Tensor, dice: Dice) -> tuple[int, ...]:
    """Return the broadcastable shape of one number per row, per slice of the first, or of the last dimension.

    Never of several: a row that crosses slices of another dimension is in all of them. Reductions are usually over a
    row, or over all of a sample.
    """
    if wide.dim() < 2:
        return (1,) * wide.dim()
    if float(dice.rand(())) < OF_LAST:
        return _along(wide, wide.dim() - 1)
    return _along(wide, 0) if wide.shape[0] > 1 and dice.coin() else (*wide.shape[:-1], 1)


def _outliers(wide: torch.Tensor, dice: Dice, level: int) -> torch.Tensor:
    """Put a few large numbers at secret places, and at the ends of some rows and columns."""
    count = max(1, int(OUTLIERS * wide.numel()))
    places = torch.randint(wide.numel(), (count,), **drawn_by(dice.generator))
    farthest = FARTHEST[max(level, SAME_SIGN)] * _spread(wide)
    sizes = (1 / 6 + 5 / 6 * dice.rand((count,))) * farthest
    signs = torch.where(dice.rand((count,)) < 0.5, -1.0, 1.0)
    flat = wide.flatten().clone()
    flat[places] = (sizes * signs).to(flat.dtype)
    return _with_ends(flat.reshape(wide.shape), dice, farthest)


def _outliers_or_peaks(wide: torch.Tensor, dice: Dice, level: int) -> torch.Tensor:
    """Add lone peaks in half of the draws: next to one, a softmax of far numbers is zero, which not all bear."""
    changed = _outliers(wide, dice, level)
    if dice.coin():
        return changed
    return _with_lone_peaks(changed, wide, dice, FARTHEST[max(level, SAME_SIGN)] * _spread(wide))


def _with_lone_peaks(changed: torch.Tensor, wide: torch.Tensor, dice: Dice, farthest: float) -> torch.Tensor:
    """Leave a few rows with one large number each, at an even or an odd place: a maximum of every second misses it."""
    length = wide.shape[-1] if wide.dim() > 1 else 0
    rows = wide.numel() // max(length, 1)
    if length < LEAST_STRUCTURE or rows < LEAST_ROWS:
        return changed
    chosen = torch.randperm(rows, **drawn_by(dice.generator))[: 2 * LONE_PEAKS]
    peaked = wide.reshape(-1, length)[chosen]
    for at, row in enumerate(peaked):
        row[at % 2 + 2 * dice.below((length - at % 2 + 1) // 2)] = farthest
    return changed.reshape(-1, length).index_copy(0, chosen, peaked).reshape(wide.shape)


def _with_ends(wide: torch.Tensor, dice: Dice, size: float) -> torch.Tensor:
    """Write numbers of about `size` at the end of some rows, columns and slices, and of about `-size` at their start.

    This exposes a reduction that skips the last of thousands of elements, which rounding would otherwise hide.
    """
    for chosen in choices_of_dims(wide.shape):
        picks = [dice.rand((PICKS,)) for _ in range(2)]
        for sign, part in zip((1.0, -1.0), picks, strict=True):
            at = _ends(wide.shape, chosen, dice, last=sign > 0)
            wide[at] = (sign * size * (0.5 + 0.5 * part)).to(wide.dtype)
    return wide


def ends_of_unit(dtype: torch.dtype) -> tuple[float, float]:
    """Return the least and the largest number that a uniform draw of [0, 1) in a dtype can hold."""
    return 0.0, 1 - torch.finfo(dtype).eps / 2


def reach_ends(tensor: torch.Tensor, kind: Kind, ends: tuple[float, float], generator: torch.Generator) -> None:
    """Write the ends of a draw's range to random places: among a few thousand numbers none lies near them.

    Args:
        tensor: changed in place; of one number, it becomes either end.
        kind: how the draw changes; where its rows or all of it are alike, it lacks the ends.
        ends: the least and the largest number.
        generator: random generator on the tensor's device.
    """
    if not tensor.numel() or kind in {"rows", "whole"}:
        return
    dice, least = Dice(generator), ends[0]
    order = ends if dice.coin() else ends[::-1]
    for end in order[: tensor.numel()] * MOST_ENDS:
        number = torch.tensor(end, dtype=tensor.dtype)
        # Rounding must not lead beyond the range.
        if abs(float(number) - least) <= abs(ends[1] - least):
            tensor.detach()[tuple(dice.below(size) for size in tensor.shape)] = number.to(tensor.device)


def choices_of_dims(shape: torch.Size) -> Iterator[tuple[int, ...]]:
    """Yield the sets of dimensions that a reduction can be over; dimensions of one element are left out."""
    dims = [dim for dim, size in enumerate(shape) if size > 1]
    if len(dims) > MOST_DIMS:
        yield from (tuple(dims[start:]) for start in range(len(dims)))
        return
    for count in range(1, len(dims) + 1):
        yield from itertools.combinations(dims, count)


def _ends(shape: torch.Size, chosen: tuple[int, ...], dice: Dice, *, last: bool) -> tuple[torch.Tensor, ...]:
    """Return indices of `PICKS` elements: last (or first) in the chosen dimensions, random in the others."""
    device = dice.generator.device
    return tuple(
        torch.full((PICKS,), size - 1 if last else 0, device=device)
        if dim in chosen
        else torch.randint(size, (PICKS,), **drawn_by(dice.generator))
        for dim, size in enumerate(shape)
    )


def _rows(wide: torch.Tensor, dice: Dice, level: int) -> torch.Tensor:
    """Make some rows zero and others nearly constant, and some columns so small that an eps added to them matters.

    Below `ANYWHERE` no row is zero; at `FAR`, some are large.
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
    # The row with the smallest number is always zero, so that there is one.
    zero = (chosen < 0.3) | (chosen == chosen.min()) | _zero_slices(wide, dice)
    # Of the others, one is always small, one tiny, and at FAR one has the largest factor: finding a missing eps or
    # maximum must not depend on luck.
    left = chosen.masked_fill(zero.all(-1, keepdim=True), -1)
    factors = [2 ** -dice.between(*SMALL_ROW_OCTAVES), TINY_ROW]
    factors = [2.0 ** LARGE_ROW_OCTAVES[1], *factors] if level == FAR else factors
    # And one is entirely positive, one negative: a count of the positive numbers reaches its extremes there.
    made = [wide * factor for factor in factors]
    made[1:1] = [wide.abs(), -wide.abs()]
    if left.numel() < LEAST_ROWS:
        # A draw of few rows has only some of these, different ones in each trial.
        made = dice.shuffled(made)
    for rank, row in zip(left.flatten().topk(min(len(made), left.numel())).values, made, strict=False):
        changed = torch.where((left == rank) & (rank >= 0), row, changed)
    return changed.masked_fill(zero, 0)


def _rows_or_whole(wide: torch.Tensor, dice: Dice, level: int) -> torch.Tensor:
    """Change rows, or occasionally all numbers, to one: an image may be of one color, and a selection empty."""
    if level < ANYWHERE or float(dice.rand(())) >= WHOLLY_ALIKE:
        return _rows(wide, dice, level)
    return wide.mean().expand_as(wide).clone() if dice.coin() else torch.zeros_like(wide)


def _whole(wide: torch.Tensor, dice: Dice, level: int) -> torch.Tensor:
    """Give all numbers of a draw one sign, or make them one number, or zeros."""
    made = [wide.abs(), -wide.abs(), wide.mean().expand_as(wide).clone(), torch.zeros_like(wide)]
    return made[dice.below(4 if level >= ANYWHERE else 3)]


def _zero_slices(wide: torch.Tensor, dice: Dice) -> torch.Tensor:
    """Return a mask with one slice for each choice of dimensions that a reduction can be over: a pixel, a channel."""
    inside = torch.zeros(wide.shape, dtype=torch.bool, device=dice.generator.device)
    whole = sum(size > 1 for size in wide.shape)
    for chosen in choices_of_dims(wide.shape):
        if len(chosen) < whole:
            at = [slice(None) if dim in chosen else dice.below(size) for dim, size in enumerate(wide.shape)]
            inside[tuple(at)] = True
    return inside


def _with_small_slices(wide: torch.Tensor, dice: Dice, octaves: tuple[float, float] = SMALL_OCTAVES) -> torch.Tensor:
    """Shrink some rows and some slices of the second dimension (columns, channels), each by its own factor."""
    if wide.dim() < 2:
        return wide
    for dim in {1, wide.dim() - 2}:
        shape = _along(wide, dim)
        small = dice.rand(shape) < TINY_SHARE
        small.view(-1)[dice.below(wide.shape[dim])] = True
        low, high = octaves
        wide = torch.where(small, wide * torch.exp2(-(low + (high - low) * dice.rand(tuple(shape)))), wide)
    return wide


def _tiny(wide: torch.Tensor, dice: Dice, level: int) -> torch.Tensor:
    """Shrink some rows and columns, and one so far that an eps added to its norm decides the result; none to zero."""
    changed, ranks = _with_small_slices(wide, dice, LESS_SMALL_OCTAVES), dice.rows(wide)
    if level < ANY_SIGN or wide.dim() < 2 or ranks.numel() < LEAST_ROWS:
        return changed
    return torch.where(ranks == ranks.max(), TINY_ROW * wide, changed)


def _everything(wide: torch.Tensor, dice: Dice, level: int) -> torch.Tensor:
    """Mix all kinds in one tensor, element by element, with a row of zeros."""
    which = dice.rand(wide.shape)
    changed = torch.where(which < 0.4, -3.0 * wide, 4.0 * wide)
    changed = torch.where(which < 0.1, wide, changed)
    changed = _outliers(changed, dice, level)
    return _rows(changed, dice, level) if wide.dim() > 1 and level >= ANYWHERE else changed


_CHANGES: Final[dict[str, Change]] = {
    "shifted": _shifted,
    "scaled": _scaled,
    "outliers": _outliers_or_peaks,
    "rows": _rows_or_whole,
    "small": lambda wide, dice, level: _with_small_slices(wide, dice, LESS_SMALL_OCTAVES),
    "tiny": _tiny,
    "distant": _distant,
    "apart": _apart,
    "whole": _whole,
    "lasting": lambda wide, dice, level: wide,
    "selected": lambda wide, dice, level: wide,
    "everything": _everything,
}


def _as_before(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """Return `after` with no sign that `before` lacks, and no zero where `before` has none."""
    low, high = float(before.min()), float(before.max())
    if low < 0 < high:
        return after
    after = after.abs() if low >= 0 else -after.abs()
    return torch.where((after == 0) & (before != 0), before, after)


def _within_range(kind: Kind) -> Change:
    """Return a change that keeps a draw between its minimum and its maximum."""

    def change(wide: torch.Tensor, dice: Dice, level: int) -> torch.Tensor:
        low, high = wide.min(), wide.max()
        width = (high - low).clamp(min=torch.finfo(wide.dtype).tiny)
        part = _UNIT_CHANGES[kind]((wide - low) / width, dice)
        return torch.minimum(torch.maximum(low + part.clamp(0, 1) * width, low), high)

    return change


def skewed(part: torch.Tensor, dice: Dice) -> torch.Tensor:
    powered = part ** dice.between(2.0, 4.0)
    return with_extreme_ends(powered if dice.coin() else 1 - powered, dice, 0.0)


def _narrowed(part: torch.Tensor, dice: Dice) -> torch.Tensor:
    share = dice.between(0.1, 0.5)
    return dice.between(0, 1 - share) + share * part


def _at_the_ends(part: torch.Tensor, dice: Dice) -> torch.Tensor:
    chosen = dice.rand(part.shape)
    return with_extreme_ends(torch.where(chosen < 0.05, part.round(), part), dice, 1.0)


def with_extreme_ends(part: torch.Tensor, dice: Dice, last: float) -> torch.Tensor:
    """Put `last`, 0 or 1, at the end of some rows, columns and slices, and `1 - last` at their start."""
    for chosen in choices_of_dims(part.shape):
        part[_ends(part.shape, chosen, dice, last=False)] = 1 - last
        part[_ends(part.shape, chosen, dice, last=True)] = last
    return part


def _calm_rows(part: torch.Tensor, dice: Dice) -> torch.Tensor:
    calm = dice.rows(part) * (1 - NEARLY_CONSTANT) + NEARLY_CONSTANT * part
    return torch.where(dice.rows(part) < 0.6, calm, part)


_UNIT_CHANGES: Final[dict[str, Callable[[torch.Tensor, Dice], torch.Tensor]]] = {
    "shifted": skewed,
    "scaled": _narrowed,
    "outliers": _at_the_ends,
    "rows": _calm_rows,
    "small": _narrowed,
    "tiny": _narrowed,
    "distant": skewed,
    "apart": skewed,
    "whole": lambda part, dice: part * 0 + dice.between(0.0, 1.0),
    "lasting": lambda part, dice: part,
    "selected": lambda part, dice: part,
    "everything": skewed,
}


def vary_tosses(tensor: torch.Tensor, kind: Kind, level: int, generator: torch.Generator) -> None:
    """Change the bias of coin tosses: more ones, more zeros, whole rows or all ones; some rows differ only at the end.

    Beyond `IN_RANGE`, whole rows, or all, can be zeros: the problem may rely on at least one 1 per row.
    """
    dice = Dice(generator)
    ones = tensor != 0
    if kind == "whole":
        ones.fill_(level == IN_RANGE or dice.coin())
    elif kind in {"rows", "small", "tiny"}:
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

    Zeros or ones become a mixture, like a mask; at `IN_RANGE`, ones are multiplied by factors around one, as are other
    floating numbers. Integers become numbers from one to the original value, which one of several elements keeps.
    """
    value = tensor.flatten()[0].item()
    dice = Dice(generator)
    if tensor.dtype == torch.bool or (value in {0, 1} and level > IN_RANGE):
        tensor.copy_(_some_of_both(tensor, bool(value), dice))
    elif tensor.dtype.is_floating_point and abs(float(value)) < float("inf"):
        tensor.copy_(tensor.double() * torch.exp2(2 * dice.rand(tensor.shape).double() - 1))
    elif not tensor.dtype.is_floating_point and value > 1:
        drawn = torch.randint(1, int(value) + 1, tensor.shape, **drawn_by(generator))
        tensor.copy_(drawn)
        if tensor.numel() > 1:
            tensor.view(-1)[dice.below(tensor.numel())] = int(value)


def constant_level(tensor: torch.Tensor) -> int:
    """Return the highest level of a tensor that holds one number; `PLAIN` if changing it would show nothing."""
    if not tensor.numel() or tensor.is_complex() or not tensor.is_contiguous():
        return 0
    value = tensor.flatten()[0].item()
    if value in {0, 1}:
        return IN_RANGE + 1
    return IN_RANGE if 0 < abs(float(value)) < float("inf") and (tensor.dtype.is_floating_point or value > 1) else 0


def _some_of_both(tensor: torch.Tensor, value: bool, dice: Dice) -> torch.Tensor:
    """Return zeros and ones, mostly `value`; the first of a row keeps it, and at least one element does not."""
    flipped = dice.rand(tensor.shape) < (0.3 if tensor.numel() > 1 else 0.5)
    if tensor.numel() > 1:
        flipped.view(-1)[1 + dice.below(tensor.numel() - 1)] = True
        flipped[..., 0] &= flipped.shape[-1] == 1
    return flipped ^ value


def structure(tensor: torch.Tensor) -> str:
    """Say what a tensor that code builds from constants looks like: `mask`, `positions`, or nothing.

    A mask holds zeros and ones, or zeros and minus infinities, both at least once. Positions are whole numbers that
    count up by one along each row.
    """
    if tensor.is_complex() or not tensor.dim() or tensor.shape[-1] < 2 or tensor.numel() < LEAST_STRUCTURE:
        return ""
    if not tensor.is_contiguous():
        return ""
    whole = not tensor.dtype.is_floating_point and tensor.dtype != torch.bool
    if whole and tensor.shape[-1] >= LEAST_STRUCTURE and bool((tensor.diff(dim=-1) == 1).all()):
        return "positions"
    # Its first numbers show that a draw is not a mask: comparing all of a large one takes memory that may not be free.
    for ones in (1, -math.inf):
        if _holds_only(tensor.flatten()[:FEW], ones) and _holds_only(tensor, ones):
            return "mask" if bool((tensor == 0).any() and (tensor == ones).any()) else ""
    return ""


def _holds_only(tensor: torch.Tensor, ones: float) -> bool:
    return bool(((tensor == 0) | (tensor == ones)).all())


def vary_structure(tensor: torch.Tensor, generator: torch.Generator) -> None:
    """Put the rows of a mask in another order, and rotate each row of positions.

    So what holds for each row still does: its number of ones, that they come first, that there is one.
    """
    dice, before = Dice(generator), tensor.clone()
    if structure(tensor) == "mask" and tensor.dim() > 1:
        order = torch.randperm(tensor.shape[-2], **drawn_by(generator))
        tensor.copy_(before[..., order, :])
        if not torch.equal(tensor, before):
            return
    rows = tensor.view(-1, tensor.shape[-1])
    for row in rows[:MOST_ROLLED]:
        row.copy_(row.roll(1 + dice.below(len(row) - 1)))


def vary_table(tensor: torch.Tensor, kind: Kind, generator: torch.Generator) -> None:
    """Scale a table of floating numbers, and bend it if one-dimensional; zeros, signs, order and symmetry stay.

    A bent table is a power of its magnitudes: steps of an evenly spaced one differ, and so do the ratios of others.
    Tables of more dimensions keep their proportions: a filter may be a product of two.
    """
    dice, table = Dice(generator), tensor.detach()
    factor = dice.between(1.1, 1.7) if kind in {"shifted", "outliers", "everything"} else dice.between(0.55, 0.9)
    power = 2 ** dice.between(*BENT_OCTAVES) if dice.coin() else 2 ** -dice.between(*BENT_OCTAVES)
    bends = kind in BENDING and table.dim() == 1 and not table.is_complex()
    if bends and bool(torch.isfinite(wide := table.double()).all()):
        largest = wide.abs().max()
        table.copy_(factor * largest * wide.sign() * (wide.abs() / largest.clamp(min=TINY_ROW)) ** power)
    else:
        table.copy_(table * factor)


def perturb(tensor: torch.Tensor, generator: torch.Generator, *, upwards: bool = False, grows: bool = False) -> None:
    """Add noise of half the tensor's own spread.

    If all elements are equal, the noise is 0.1, and some elements change sign or grow several times: a gain of ones
    becomes negative somewhere, and a slope of 0.25 exceeds one.

    Args:
        tensor: changed in place.
        generator: random generator on the tensor's device.
        upwards: whether no element may decrease.
        grows: whether the whole tensor grows, so that a contracting recurrence gets a memory; some elements become 0.
    """
    wide, dice = tensor.double(), Dice(generator)
    spread = float(wide.std()) if tensor.numel() > 1 else 0.0
    noise = torch.randn(tensor.shape, dtype=torch.float64, **drawn_by(generator))
    if upwards:
        tensor.copy_(wide + (0.5 * spread or 0.1) * noise.abs())
        return
    if spread > 0:
        factor = 2 ** dice.between(0.0, GROWN_OCTAVES) if grows else 1.0
        changed = factor * (wide + 0.5 * spread * noise)
        if grows and tensor.numel() >= LEAST_PRUNED:
            changed = changed.masked_fill(dice.rand(tensor.shape) < ZERO_SHARE, 0)
        tensor.copy_(with_plain_norms(changed.to(tensor.dtype), mean=False))
        return
    which = dice.rand(tensor.shape) if tensor.numel() > 1 else torch.full_like(wide, FLIPPED_SHARE)
    grown = torch.where(which < FLIPPED_SHARE + GROWN_SHARE, wide * dice.between(3.0, 6.0), wide)
    tensor.copy_(torch.where(which < FLIPPED_SHARE, -wide, grown) + 0.1 * noise)


def vary(tensor: torch.Tensor, generator: torch.Generator) -> None:
    """Change finite floating numbers; leave masks and tensors with infinities unchanged.

    Nonnegative numbers are multiplied by factors in [0.5, 2], and a few by one so small that an eps added to them
    matters. Signed numbers, and zeros alone, get noise.
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
    """Multiply each element by its own factor, at most `octaves` powers of two away from one."""
    part = torch.rand(tensor.shape, dtype=torch.float64, **drawn_by(generator))
    tensor.copy_(tensor.double() * torch.exp2((part * 2 - 1) * octaves))


def is_mask(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds zeros and one other number, both at least once."""
    if not tensor.numel():
        return False
    peak = tensor.flatten()[tensor.abs().argmax()]
    zeros = tensor == 0
    return bool(zeros.any()) and bool((zeros | (tensor == peak)).all()) and bool(peak != 0)
