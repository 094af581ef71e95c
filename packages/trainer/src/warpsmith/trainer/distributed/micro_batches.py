"""Groups rows into micro-batches and assigns them to ranks. Imports no torch."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warpsmith.trainer.config.sections import ZeroSection
    from warpsmith.trainer.distributed.ranks import Ranks


def micro_batches_of(lengths: Sequence[int], zero: "ZeroSection", ranks: "Ranks") -> list[list[int]]:
    """Split rows into the micro-batches of a run; one has the tokens of all ranks that share its rows.

    Args:
        lengths: tokens of each row.
        zero: budget of a rank, and the layout.
        ranks: the processes.
    """
    budget = zero.micro_batch_tokens * ranks.parallel.sequence
    return micro_batches(lengths, budget, packed=zero.packing, world=ranks.teams)


def dealt_to(ranks: "Ranks", batches: Sequence[list[int]]) -> list[list[int]]:
    """Return the micro-batches of this rank's team."""
    return deal(batches, ranks.teams)[ranks.team]


def micro_batches(lengths: Sequence[int], budget: int, *, packed: bool = False, world: int = 1) -> list[list[int]]:
    """Split rows into micro-batches of at most `budget` tokens, starting with the longest row.

    Args:
        lengths: tokens of each row.
        budget: maximum tokens of a micro-batch; a longer row is alone in its micro-batch.
        packed: count the rows' own tokens; otherwise the padded size, rows x longest.
        world: ranks over which packed micro-batches are spread evenly.
    """
    order = sorted(range(len(lengths)), key=lambda row: (-lengths[row], row))
    return _levelled(order, lengths, budget, world) if packed else _neighbours(order, lengths, budget)


def _levelled(order: Sequence[int], lengths: Sequence[int], budget: int, world: int) -> list[list[int]]:
    """Give every rank the same number of micro-batches of similar size, as few as the budget allows.

    A packed micro-batch takes rows of any length, so the sizes can be even: with one full and one empty, a rank waits.
    """
    full = _first_fit(order, lengths, budget)
    batches: list[list[int]] = [[] for _ in range(min(len(order), -(-len(full) // world) * world))]
    load = [0] * len(batches)
    for row in order:
        lightest = load.index(min(load))
        batches[lightest].append(row)
        load[lightest] += lengths[row]
    fits = all(total <= budget or len(batch) == 1 for total, batch in zip(load, batches, strict=True))
    return batches if fits else full


def _first_fit(order: Sequence[int], lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Put each row into the first micro-batch that has room for it."""
    batches: list[list[int]] = []
    room: list[int] = []
    for row in order:
        fitting = next((batch for batch, space in enumerate(room) if space >= lengths[row]), None)
        if fitting is None:
            batches.append([row])
            room.append(budget - lengths[row])
        else:
            batches[fitting].append(row)
            room[fitting] -= lengths[row]
    return batches


def _neighbours(order: Sequence[int], lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Group rows of similar length, so that there is little padding."""
    batches: list[list[int]] = []
    for row in order:
        longest = lengths[batches[-1][0]] if batches else 0
        if batches and (len(batches[-1]) + 1) * longest <= budget:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


def deal(batches: Sequence[list[int]], world: int) -> list[list[list[int]]]:
    """Deal micro-batches to ranks: result[rank] is a rank's list, of the same length on every rank.

    Ranks with too few get empty micro-batches: every rank must take part in every collective, and one that makes fewer
    forward passes than the others deadlocks ZeRO-3. Neighbours in the order have similar sizes, so the ranks process
    similar sizes at the same time.
    """
    steps = max(1, -(-len(batches) // world))
    padded = [*batches, *([] for _ in range(steps * world - len(batches)))]
    return [[list(padded[step * world + rank]) for step in range(steps)] for rank in range(world)]


def padding_share(lengths: Sequence[int], batches: Sequence[Sequence[int]]) -> float:
    """Return the share of padded micro-batches' positions that is padding, 0 to 1."""
    computed = sum(len(batch) * max(lengths[row] for row in batch) for batch in batches)
    return 1.0 - sum(lengths[row] for batch in batches for row in batch) / computed
