"""Groups rows into micro-batches and assigns them to ranks. No torch here."""

from collections.abc import Sequence


def micro_batches(lengths: Sequence[int], budget: int, *, packed: bool = False, world: int = 1) -> list[list[int]]:
    """Cut rows into micro-batches of at most `budget` tokens, from the longest row down.

    Args:
        lengths: tokens of each row.
        budget: most tokens of a micro-batch; a row longer than that stands alone.
        packed: count the rows' own tokens; otherwise the padded size, rows x longest.
        world: ranks that packed micro-batches are to be spread over evenly.
    """
    order = sorted(range(len(lengths)), key=lambda row: (-lengths[row], row))
    return _levelled(order, lengths, budget, world) if packed else _neighbours(order, lengths, budget)


def _levelled(order: Sequence[int], lengths: Sequence[int], budget: int, world: int) -> list[list[int]]:
    """Give every rank the same number of micro-batches and the micro-batches like sizes, as few as the budget permits.

    A packed micro-batch takes rows of any length, so none need be short: one full and one empty would let a rank wait.
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
    """Put rows of like length together, so that little is padded."""
    batches: list[list[int]] = []
    for row in order:
        longest = lengths[batches[-1][0]] if batches else 0
        if batches and (len(batches[-1]) + 1) * longest <= budget:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


def deal(batches: Sequence[list[int]], world: int) -> list[list[list[int]]]:
    """Deal micro-batches to ranks: result[rank] is its list, of the same length on every rank.

    Ranks that run short get empty micro-batches: each rank has to take part in every collective, and a rank that
    makes one forward pass less than the others stops ZeRO-3 for ever. Neighbours in the order have like sizes, so the
    ranks work on like sizes at the same time.
    """
    steps = max(1, -(-len(batches) // world))
    padded = [*batches, *([] for _ in range(steps * world - len(batches)))]
    return [[list(padded[step * world + rank]) for step in range(steps)] for rank in range(world)]


def padding_share(lengths: Sequence[int], batches: Sequence[Sequence[int]]) -> float:
    """Return which share of the positions of padded micro-batches is padding, 0 to 1."""
    computed = sum(len(batch) * max(lengths[row] for row in batch) for batch in batches)
    return 1.0 - sum(lengths[row] for batch in batches for row in batch) / computed
