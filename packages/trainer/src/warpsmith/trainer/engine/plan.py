"""Which rows go together into a micro-batch, and which rank takes it. No torch here."""

from collections.abc import Sequence


def micro_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Cut rows into micro-batches whose padded size (rows x longest) is at most `budget` tokens.

    Rows are taken from the longest down, so that rows of like length meet and little is padded. A row longer than
    the budget stands alone.
    """
    order = sorted(range(len(lengths)), key=lambda row: (-lengths[row], row))
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
