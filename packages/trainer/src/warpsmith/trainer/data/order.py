"""The order of examples or problems: shuffled each epoch, depends only on seed and cursor."""

import numpy as np


def taken(cursor: int, count: int, size: int, seed: int) -> list[int]:
    """Return the indices handed out at positions cursor .. cursor + count - 1.

    Args:
        cursor: how many were handed out before.
        count: how many to return.
        size: how many there are; every epoch hands out each once.
        seed: seed of the run; epoch e is shuffled by (seed, e).
    """
    indices: list[int] = []
    for position in range(cursor, cursor + count):
        epoch, offset = divmod(position, size)
        if not indices or offset == 0:
            shuffled = np.random.default_rng((seed, epoch)).permutation(size)
        indices.append(int(shuffled[offset]))
    return indices
