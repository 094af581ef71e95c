"""Changes of rows of integers: windows that repeat, neighbouring numbers of the source, sums that meet a number.

Every function changes a tensor in place, within the range of the draw. A row is the last dimension.
"""

import itertools
from collections.abc import Sequence
from random import Random
from typing import Final

import torch

from warpsmith.evaluator.reference.mutations import Dice, drawn_by
from warpsmith.evaluator.reference.telling_numbers import hardest, sum_to_meet

WIDEST: Final = 4
"""Integers of the widest window."""
IN_RUNS: Final = 1 / 4
IN_FEWER_RUNS: Final = 1 / 8
"""Share of a draw's windows that become a run of the source's numbers, and of a draw that is one row."""
MOST_RUNS: Final = 1024
MOVED: Final = 1 / 8
"""Share of a run's numbers that become a neighbour, such as one beyond a boundary."""
REPEATING: Final = 1 / 2
"""Share of the rows in which a window repeats."""
AT_THE_END: Final = 1 / 2
"""How often it repeats at the end of its row."""
SUMMED: Final = 1 / 4
MOST_SUMMED: Final = 32
"""Share and maximum count of the rows whose sum meets a number."""
MOST_IN_SUMS: Final = 1 << 16
"""Longer rows keep their sums."""


def repeat_windows(tensor: torch.Tensor, dice: Dice) -> None:
    """Let a window of up to WIDEST integers of some rows repeat later in its row, half of the time at its end.

    The first one is the row's first, any, or so near that the second continues it: `abab`, `aaaa`.
    """
    rows = _rows(tensor)
    width = 1 + dice.below(WIDEST)
    if rows is None or rows.shape[1] <= width:
        return
    count, length = rows.shape
    last = length - width
    to = torch.where(dice.rand((count,)) < AT_THE_END, last, 1 + (dice.rand((count,)) * last).long())
    period = 1 + (dice.rand((count,)) * width).long() * (dice.rand((count,)) < 1 / 2)
    ways = dice.rand((count,))
    start = torch.where(ways < 1 / 2, (dice.rand((count,)) * to).long(), (to - period).clamp(min=0))
    start = torch.where(ways > 3 / 4, 0, start)
    steps = torch.arange(width, device=tensor.device)
    taken = rows.gather(1, start[:, None] + steps % (to - start)[:, None])
    chosen = (dice.rand((count,)) < REPEATING)[:, None]
    places = to[:, None] + steps
    rows.scatter_(1, places, torch.where(chosen, taken, rows.gather(1, places)))


def plant_runs(tensor: torch.Tensor, numbers: Sequence[int], within: tuple[int, int], dice: Dice) -> None:
    """Write numbers that follow one another in a source into neighbouring places of some rows.

    So a mark and what may follow it meet: bytes of a character, an escape and its command, the end of a line. Two
    neighbouring Fibonacci numbers are such a pair too.

    Args:
        tensor: changed in place.
        numbers: the source's integers, in its order.
        within: the range, the upper end exclusive.
        dice: chooses.
    """
    rows = _rows(tensor)
    if rows is None or rows.shape[1] < 2:
        return
    low, high = within
    count, width = rows.shape[0], min(WIDEST, rows.shape[1])
    inside = [number for number in numbers if low <= number < high]
    pairs = list(dict.fromkeys(itertools.pairwise([*inside, *hardest(low, high)[:2]])))
    slots = rows.shape[1] // width
    share = IN_RUNS if count > 1 else IN_FEWER_RUNS
    wanted = min(max(int(share * count * slots), 1), MOST_RUNS, count * slots)
    if not pairs:
        return
    rng = Random(dice.below(1 << 31))
    rng.shuffle(pairs)
    some = list(itertools.islice(itertools.cycle(pairs), wanted))
    runs = torch.tensor([_run(pair, inside, width, rng) for pair in some], device=tensor.device)
    slot = torch.randperm(count * slots, **drawn_by(dice.generator))[:wanted]
    spare = rows.shape[1] - slots * width
    begins = (0, spare, dice.below(spare + 1))[dice.below(3)]
    places = begins + (slot % slots)[:, None] * width + torch.arange(width, device=tensor.device)
    before = rows[(slot // slots)[:, None], places]
    beside = runs + torch.where(dice.rand(runs.shape) < 1 / 2, 1, -1) * (dice.rand(runs.shape) < MOVED)
    moved = torch.where((beside >= low) & (beside < high), beside, runs).to(rows.dtype)
    kept = torch.arange(width, device=tensor.device) >= torch.where(dice.rand((wanted, 1)) < 1 / 4, 2, width)
    rows[(slot // slots)[:, None], places] = torch.where(kept, before, moved)


def _run(pair: tuple[int, int], numbers: Sequence[int], width: int, rng: Random) -> list[int]:
    """Return a run that begins or ends with a pair: its second number repeats, or others of the source follow."""
    one, two = pair
    match rng.randrange(4):
        case 0:
            return [*[one] * (width - 1), two]
        case 1:
            return [one, two, *(rng.choice(numbers or pair) for _ in range(width - 2))]
        case _:
            return [one, *[two] * (width - 1)]


def meet_sums(tensor: torch.Tensor, numbers: Sequence[int], within: tuple[int, int], dice: Dice) -> None:
    """Let the sums of some rows meet a multiple of a source's number, or lie next to one.

    As few integers as possible change. A row in which more than half would have to change keeps its sum.
    """
    rows = _rows(tensor)
    low, high = within
    if rows is None or not 1 < rows.shape[1] <= MOST_IN_SUMS or (high - low) * rows.shape[1] >= 1 << 62:
        return
    if not numbers or (len(rows) == 1 and dice.coin()):
        return
    rng, ends = Random(dice.below(1 << 31)), (low * rows.shape[1], (high - 1) * rows.shape[1])
    wanted = min(max(int(SUMMED * len(rows)), 1), MOST_SUMMED)
    for at in torch.randperm(len(rows), **drawn_by(dice.generator))[:wanted].tolist():
        total = int(rows[at].long().sum())
        aim = sum_to_meet(total, ends, numbers, rng)
        if aim is not None:
            _add(rows[at], aim - total, within, dice)


def _add(row: torch.Tensor, difference: int, within: tuple[int, int], dice: Dice) -> None:
    """Add a difference to the sum of a row, in places chosen at random; leave it if half of them do not suffice."""
    order = torch.randperm(len(row), **drawn_by(dice.generator))[: (len(row) + 1) // 2]
    values = row[order].long()
    room = within[1] - 1 - values if difference > 0 else values - within[0]
    before = room.cumsum(0) - room
    part = torch.minimum(room, (abs(difference) - before).clamp(min=0))
    if int(part.sum()) == abs(difference):
        row[order] = (values + (part if difference > 0 else -part)).to(row.dtype)


def _rows(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return a view of a tensor's rows; None if it has none."""
    fits = tensor.dim() > 0 and tensor.numel() > 1 and tensor.is_contiguous()
    return tensor.view(-1, tensor.shape[-1]) if fits else None
