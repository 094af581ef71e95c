"""Changes of integer draws: ends, numbers next to boundaries, neighbours, equal and related ones, carries, orders.

Changes that concern a row's integers together are in `integer_rows.py`.

Every function changes a tensor in place. All numbers stay within the range of the draw, and distinct ones distinct.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

import numpy
import torch

from warpsmith.evaluator.reference.draw_plan import Kind
from warpsmith.evaluator.reference.integer_rows import meet_sums, plant_runs, repeat_windows
from warpsmith.evaluator.reference.levels import ANYWHERE, SAME_SIGN
from warpsmith.evaluator.reference.mutations import (
    MOST_COMPARED,
    MOST_ROLLED,
    SHARED,
    WHOLLY_ALIKE,
    Dice,
    drawn_by,
    skewed,
    vary_draw,
    with_extreme_ends,
)
from warpsmith.evaluator.reference.telling_numbers import (
    FIBONACCI,
    LARGE_OF,
    LEAST_SQUARED,
    boundaries,
    hardest,
    meetings,
)

LEAST_ENDED: Final = 8
"""Smallest number of distinct integers that always include the ends of their range."""
COUNTED_SHARE: Final = 1 / 16
"""Share of a draw of counts that becomes the least one."""
MOST_SURE: Final = 8
"""Special integers in each draw of at least four times as many numbers."""
SPECIAL: Final[frozenset[Kind]] = frozenset({"outliers", "tiny", "distant"})
"""Kinds in which most of the planted integers are special ones; in the others most are boundaries."""
MOST_TELLING: Final = 1 << 15
"""Maximum telling integers of a draw, however large it is."""
HIGH_PART: Final = 16
"""The part of a range, at its upper end, that holds the numbers of a high row."""
PLANTED: Final = 5 / 8
"""Largest share of a draw that becomes telling integers."""
MET: Final = 1 / 8
"""Share of a draw whose sum with an integer of the source is a multiple of another one."""
GOLDEN: Final = (1 + math.sqrt(5)) / 2
"""The quotient of two neighbouring Fibonacci numbers, whose common divisor takes the most steps to find."""
MEETING: Final = 1 / 16
"""Share of a draw whose sum with earlier draws is a multiple of an integer of the source."""
RATIOS: Final = 1 / 64
"""Share of a draw that is in this ratio to an earlier draw, besides neighbours of its Fibonacci numbers."""
RELATED: Final = 1 / 4
MOST_RELATED: Final = 4096
"""Share and most integers of a draw that become a sum or a difference of earlier ones and of special numbers."""
OFFSETS: Final = 3
MOST_OFFSETS: Final = 16
"""Special integers that are tried at each of them, and the number of first ones tried twice as often as the others."""
CARRIES: Final = 2
CARRIED: Final = 2
"""Rows in which a carry runs, and the digits that it runs through."""
LEAST_WINDOW: Final = 4
"""Smallest range of which a draw can lack the ends."""
REACHING: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(("shifted", "distant", "apart"), (0, 1)),
    **dict.fromkeys(("outliers", "tiny", "small", "everything"), (1, 0)),
}
"""Kinds whose draws reach both ends of their range, and which end comes first: one integer alone is only that one."""
MOST_REPEATED: Final = 200
"""An author occasionally sees two equal integers if one draw in so many has some."""


def vary_integers(
    tensor: torch.Tensor,
    kind: Kind,
    low: int,
    high: int,
    generator: torch.Generator,
    *,
    special: Sequence[int] = (),
    ordered: Sequence[int] = (),
) -> None:
    """Redraw integers of `low` to `high - 1`: skewed, extreme, or equal, in most kinds with all of the `special` ones.

    A share is next to a boundary: a power of two or of ten, a square, a special number (`telling_numbers.py`). Integers
    that are `ordered` as in the source are neighbours in some rows (`integer_rows.py`).

    They stay distinct if the problem can rely on that: if not even one draw in MOST_REPEATED has two equal numbers.
    """
    if not tensor.numel() or high - low < 2:
        return
    dice = Dice(generator)
    sources = ordered or special
    special = [number for number in special if low <= number < high]
    most = min(max(tensor.numel() // 2, 1), MOST_TELLING)
    telling = _telling(most, kind, (low, high), Random(dice.below(1 << 31)), (special, sources))
    if are_seldom_equal(tensor, tensor, high - low) and _are_distinct(tensor):
        _make_neighbours(tensor, low, high, dice, telling)
        return
    part = (tensor.double() - low + dice.rand(tensor.shape)) / (high - low)
    if kind == "rows":
        rows = dice.rows(tensor) if tensor.dim() > 1 else dice.rand((1,))
        part = torch.where(rows < 0.6, rows / 0.6, part) if tensor.dim() > 1 else rows.expand(tensor.shape)
        part = _without_ends(part, high - low, dice)
    elif kind == "whole":
        part = _at_one_place(part, high - low, dice)
    elif kind == "outliers":
        part = with_extreme_ends(torch.where(dice.rand(tensor.shape) < 0.5, part.round(), part), dice, 1.0)
    else:
        part = _with_high_rows(skewed(part, dice), dice)
    tensor.copy_((low + (part * (high - low)).floor().long()).clamp(low, high - 1))
    if kind in {"rows", "whole"}:
        return
    _plant(tensor, telling, generator)
    repeat_windows(tensor, dice)
    plant_runs(tensor, ordered or special, (low, high), dice)
    meet_sums(tensor, sources, (low, high), dice)
    sure = special[: min(MOST_SURE, tensor.numel() // 4)]
    _plant(tensor, [number for number in sure if not bool((tensor == number).any())], generator)


def _without_ends(part: torch.Tensor, width: int, dice: Dice) -> torch.Tensor:
    """Leave out the ends of the range; occasionally all integers are one.

    Draws of many integers always contain the least and the largest one, so a kernel may take either for granted.
    """
    if float(dice.rand(())) < WHOLLY_ALIKE:
        return _at_one_place(part, width, dice)
    return part if width < LEAST_WINDOW else (1 + part * (width - 2)) / width


def _at_one_place(part: torch.Tensor, width: int, dice: Dice) -> torch.Tensor:
    """Make all integers the least, the largest or another one."""
    place = (0.0, 1.0, float(dice.rand(())))[dice.below(3 if width > 2 else 2)]
    return torch.full_like(part, place).clamp(max=1 - 1 / (2 * width))


def reach_ends(tensor: torch.Tensor, kind: Kind, low: int, high: int, generator: torch.Generator) -> None:
    """Write the least and the largest integer of a range to random places if a draw lacks them.

    A small draw of a wide range has them in none of a thousand evaluations: the last class, the first row of a table.
    Distinct integers stay distinct.

    Args:
        tensor: changed in place.
        kind: how the draw changes; in some kinds it may lack the ends.
        low: the least integer.
        high: the largest one and one more.
        generator: random generator on the tensor's device.
    """
    count = tensor.numel()
    if not count or high - low < 2 or kind not in REACHING:
        return
    ends = [(low, high - 1)[end] for end in REACHING[kind]][:count]
    for end, other in zip(ends, ends[::-1], strict=True):
        if bool((tensor == end).any()):
            continue
        first = Dice(generator).below(count)
        around = (numpy.unravel_index((first + step) % count, tensor.shape) for step in range(count))
        # A place that does not hold the other end, if there is one.
        tensor[next((at for at in around if int(tensor[at]) != other), (0,) * tensor.dim())] = end


def _with_high_rows(part: torch.Tensor, dice: Dice) -> torch.Tensor:
    """Fill a row with distinct large numbers only: their sum needs more digits than plain rows do."""
    rows = dice.rows(part)
    return torch.where(rows == rows.max(), 1 - (1 - part) / HIGH_PART, part) if part.dim() > 1 else part


def _telling(
    most: int, kind: Kind, within: tuple[int, int], rng: Random, numbers: tuple[Sequence[int], Sequence[int]]
) -> list[int]:
    """Return up to `most` integers at which kernels may act differently: special ones, boundaries, in shares by kind.

    Of more special ones the first few are always there, as the rarest of the problem's source, and some of the others.
    `numbers` are the special ones and all of the source, including those out of the range: sums may meet these.
    Integers whose sums do are returned in addition to `most`.
    """
    special, sources = numbers
    first = min(MOST_SURE, (most + 1) // 2)
    others = list(special[first:])
    rng.shuffle(others)
    share = (3 * most + 3) // 4 if kind in SPECIAL else most // 4
    wanted = [*special[:first], *others][: max(share, first)]
    left = most - len(wanted)
    hard = hardest(*within) if left > MOST_SURE else []
    found = boundaries(*within, max(left - len(hard), 0), rng, special=special)
    met = meetings(*within, int(2 * MET * most), rng, sources)
    return list(dict.fromkeys([*wanted, *hard, *met, *found]))


def are_seldom_equal(one: torch.Tensor, other: torch.Tensor, width: int) -> bool:
    """Whether an author never sees a number of a range of `width` in both of two draws, or twice in the same one."""
    pairs = one.numel() * other.numel() if one is not other else one.numel() * (one.numel() - 1) / 2
    return pairs * MOST_REPEATED < width


def _make_neighbours(tensor: torch.Tensor, low: int, high: int, dice: Dice, telling: Sequence[int]) -> None:
    """Make integers neighbours in random order: anywhere, at an end of their range, or around a telling number.

    Of many integers, some become the ends and the telling numbers in any case.
    """
    count = tensor.numel()
    around = [telling[dice.below(len(telling))] - dice.below(count)] if telling else []
    starts = [low + dice.below(high - low - count + 1), low, high - count, *around]
    start = min(max(starts[dice.below(len(starts))], low), high - count)
    order = torch.randperm(count, **drawn_by(dice.generator))
    tensor.copy_((start + order).reshape(tensor.shape))
    wanted = dict.fromkeys((low, high - 1, *telling))
    missing = [number for number in wanted if not start <= number < start + count]
    if count >= LEAST_ENDED:
        _plant(tensor, missing, dice.generator)


def _plant(tensor: torch.Tensor, special: Sequence[int], generator: torch.Generator) -> None:
    """Write each special number to one random place, as far as a share of the places allows."""
    some = special[: int(PLANTED * tensor.numel())]
    if some:
        places = torch.randperm(tensor.numel(), **drawn_by(generator))[: len(some)]
        at = torch.unravel_index(places, tensor.shape)
        tensor[at] = torch.tensor(some, dtype=tensor.dtype, device=tensor.device)


def vary_sample(
    tensor: torch.Tensor, kind: Kind, among: int, generator: torch.Generator, *, special: Sequence[int] = ()
) -> None:
    """Change a sample without replacement of the integers below `among`: all of its numbers stay distinct in each row.

    A sample of all of them is a permutation. Of others, some numbers become the first, the last and the special ones;
    those of kind `rows` are neighbours.
    """
    if not tensor.numel() or among < 2:
        return
    if tensor.shape[-1] == among:
        vary_permutation(tensor, kind, generator)
        return
    dice = Dice(generator)
    wanted = [number for number in dict.fromkeys((0, among - 1, *special)) if 0 <= number < among]
    for row in tensor.view(-1, tensor.shape[-1])[:MOST_ROLLED]:
        if kind == "rows":
            _make_neighbours(row, 0, among, dice, wanted)
        else:
            missing = [number for number in wanted if not bool((row == number).any())]
            _plant(
                row,
                missing[dice.below(len(missing)) :] + missing if len(row) < 2 * len(missing) else missing,
                generator,
            )


def vary_counts(tensor: torch.Tensor, kind: Kind, level: int, generator: torch.Generator, *, least: int) -> None:
    """Change whole numbers from `least` on without an upper bound, as draws change, and make some of them the least."""
    if not tensor.numel():
        return
    dice = Dice(generator)
    wide = tensor.detach().to(torch.float64 if tensor.dtype == torch.float64 else torch.float32) - least
    vary_draw(wide, kind, min(level, SAME_SIGN) if level < ANYWHERE else level, generator)
    wide = wide.abs().round()
    few = dice.rand(wide.shape) < COUNTED_SHARE
    few.view(-1)[dice.below(wide.numel())] = True
    most = _largest_whole(tensor.dtype)
    tensor.copy_((wide.masked_fill(few, 0) + least).clamp(max=most))


def _largest_whole(dtype: torch.dtype) -> float:
    """Return a number up to which a dtype holds all whole numbers, or the largest one that it holds."""
    return 2.0 / torch.finfo(dtype).eps if dtype.is_floating_point else float(min(torch.iinfo(dtype).max, 1 << 30))


def share_integers(
    tensor: torch.Tensor,
    earlier: torch.Tensor,
    generator: torch.Generator,
    *,
    within: tuple[int, int] = (0, 0),
    special: Sequence[int] = (),
) -> None:
    """Copy some integers of an earlier draw of the same range: to the same place, row or to anywhere.

    So one index equals another: an edge from a node to itself, a negative sample that is the positive one. The first
    special integers `within` the range stay where they are.
    """
    dice = Dice(generator)
    chosen = dice.rand(tensor.shape) < SHARED
    chosen.view(-1)[dice.below(tensor.numel())] = True
    chosen &= ~torch.isin(tensor, _sure(special, within, tensor))
    if earlier.shape == tensor.shape:
        other = earlier
    elif earlier.numel() == earlier.shape[0] == tensor.shape[0]:
        other = earlier.reshape(-1, *[1] * (tensor.dim() - 1)).expand(tensor.shape)
    else:
        other = earlier.flatten()[torch.randint(earlier.numel(), tensor.shape, **drawn_by(generator))]
    tensor.copy_(torch.where(chosen, other, tensor))


def relate_integers(
    tensor: torch.Tensor,
    earlier: Sequence[torch.Tensor],
    within: tuple[int, int],
    generator: torch.Generator,
    *,
    special: Sequence[int] = (),
) -> None:
    """Make some integers sums or differences of those at the same place of earlier draws, and of special numbers.

    So conditions of several draws are met: `a - b == 77`, `a + b == c`, `(a + b) % n == 0`. The first special integers
    stay where they are.

    Args:
        tensor: changed in place, within its range.
        earlier: one or two draws of the same shape, the last one first.
        within: the range, the upper end exclusive.
        generator: random generator on the tensor's device.
        special: integers of the sources.
    """
    low, high = within
    dice, count = Dice(generator), tensor.numel()
    places = torch.randint(count, (max(1, min(int(RELATED * count), MOST_RELATED)),), **drawn_by(generator))
    at = torch.unravel_index(places, tensor.shape)
    first = earlier[0][at].long()
    found = [one for other in earlier[1:] for one in (first + other[at].long(), first - other[at].long())]
    if special:
        pool = torch.tensor([*special[:MOST_OFFSETS], *special], dtype=torch.int64, device=tensor.device)
        for _ in range(OFFSETS):
            offset = pool[torch.randint(len(pool), places.shape, **drawn_by(generator))]
            found += [first + offset, first - offset, offset - first]
    if not found:
        return
    options = torch.stack(found)
    possible = (options >= low) & (options < high) & ~torch.isin(tensor[at], _sure(special, within, tensor))
    ranks = torch.where(possible, dice.rand(options.shape), -1.0)
    taken = options.gather(0, ranks.argmax(0, keepdim=True))[0]
    tensor[at] = torch.where(possible.any(0), taken, tensor[at].long()).to(tensor.dtype)


def meet_integers(
    tensor: torch.Tensor,
    earlier: Sequence[torch.Tensor],
    within: tuple[int, int],
    generator: torch.Generator,
    *,
    special: Sequence[int] = (),
) -> None:
    """Let some sums with earlier draws meet a special integer or a multiple of it, and some ratios be the golden ratio.

    So `(a + b + c) % n` is zero, and `gcd(a, b)` takes many steps. Such integers are never ones that the draw already
    has: distinct ones stay distinct. The first special integers stay where they are.

    Args:
        tensor: changed in place, within its range.
        earlier: one or two draws of the same shape, the last one first.
        within: the range, the upper end exclusive.
        generator: random generator on the tensor's device.
        special: integers of the sources.
    """
    dice, sums = Dice(generator), list(itertools.accumulate(one.long() for one in earlier))
    aims = _golden(earlier[0], within, dice)
    large = sorted({abs(number) for number in special if abs(number) > LEAST_SQUARED})
    if large:
        pool = torch.tensor(large, dtype=torch.int64, device=tensor.device)
        ranks = torch.randint(len(pool), (LARGE_OF, *tensor.shape), **drawn_by(generator)).amax(0)
        total = sums[dice.below(len(sums))]
        least = (total + within[0]).div(pool[ranks], rounding_mode="floor")
        times = least + 1 + torch.randint(2, tensor.shape, **drawn_by(generator))
        met = dice.rand(tensor.shape) < MEETING
        aims = torch.where(met, times * pool[ranks] - total, aims)
    possible = (aims >= within[0]) & (aims < within[1])
    possible &= ~torch.isin(aims, tensor.long()) & ~torch.isin(tensor, _sure(special, within, tensor))
    tensor.copy_(torch.where(_first_of_equals(aims, possible), aims.to(tensor.dtype), tensor))


def _golden(earlier: torch.Tensor, within: tuple[int, int], dice: Dice) -> torch.Tensor:
    """Return integers in the golden ratio to given ones: to half of the Fibonacci numbers, and to few others."""
    wide = earlier.double()
    fibonacci = torch.isin(earlier.long(), torch.tensor(FIBONACCI, device=earlier.device)) & (earlier > LEAST_SQUARED)
    chosen = dice.rand(earlier.shape) < torch.where(fibonacci, 1 / 2, RATIOS)
    above = (wide * GOLDEN).round()
    aims = torch.where((dice.rand(earlier.shape) < 1 / 2) & (above < within[1]), above, (wide / GOLDEN).round())
    return torch.where(chosen & (earlier > LEAST_SQUARED), aims, within[0] - 1.0).long()


def _first_of_equals(numbers: torch.Tensor, among: torch.Tensor) -> torch.Tensor:
    """Return which of the places `among` are the first of their number."""
    places = torch.nonzero(among.flatten()).flatten()
    which = torch.unique(numbers.flatten()[places], return_inverse=True)[1]
    order = which.sort(stable=True)
    first = order.values.diff(prepend=order.values.new_full((1,), -1)) != 0
    found = torch.zeros_like(among.flatten())
    found[places[order.indices[first]]] = True
    return found.view(among.shape)


def _sure(special: Sequence[int], within: tuple[int, int], tensor: torch.Tensor) -> torch.Tensor:
    """Return the special integers that stay where they were planted."""
    sure = [number for number in special if within[0] <= number < within[1]][:MOST_SURE]
    return torch.tensor(sure, dtype=tensor.dtype, device=tensor.device)


def are_digits(tensor: torch.Tensor, within: tuple[int, int]) -> bool:
    """Whether rows of integers may be digits: they are below a power of two or of ten."""
    low, high = within
    fits = tensor.dim() > 1 and tensor.shape[-1] > CARRIED and tensor.is_contiguous()
    ten = high > 0 and set(str(high)) <= {"1", "0"} and str(high).count("1") == 1
    return fits and low == 0 and high > 1 and (ten or high & (high - 1) == 0)


def carry_integers(
    tensor: torch.Tensor, earlier: torch.Tensor, within: tuple[int, int], generator: torch.Generator
) -> None:
    """Let a carry run through a few digits of some rows: there the sums with an earlier draw are the largest digit."""
    low, high = within
    dice, length = Dice(generator), tensor.shape[-1]
    rows, others = tensor.view(-1, length), earlier.reshape(-1, length)
    for row in torch.randint(len(rows), (CARRIES,), **drawn_by(generator)).tolist():
        start, upwards = dice.below(length - CARRIED), dice.coin()
        run = slice(start, start + CARRIED + 1)
        digits = low + high - 1 - others[row, run]
        digits[0 if upwards else -1] = high - 1
        rows[row, run] = digits.to(tensor.dtype)


def _are_distinct(tensor: torch.Tensor) -> bool:
    count = tensor.numel()
    return count <= MOST_COMPARED and int(torch.unique(tensor).numel()) == count


def vary_permutation(tensor: torch.Tensor, kind: Kind, generator: torch.Generator) -> None:
    """Make a permutation the identity, its reverse or a rotation; leave it random for other kinds."""
    if kind in {"rows", "small", "tiny"}:
        tensor.copy_(tensor.sort().values)
    elif kind in {"scaled", "distant", "apart"}:
        tensor.copy_(tensor.sort(descending=True).values)
    elif kind == "outliers" and tensor.numel():
        tensor.copy_(tensor.sort().values.roll(Dice(generator).below(tensor.numel())))
