"""The order of the examples of several sources, which depends only on seed and cursor."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class Mixture:
    """Hands out examples, epoch after epoch, each source in proportion to its weight.

    In one epoch a source contributes its weight times its size, rounded, at least one. Each of its examples is used
    once before any is repeated, also across epochs.

    Args:
        sources: the examples of each source, as indices.
        weights: how often each is used per epoch.
        seed: seed of the run.
    """

    def __init__(self, sources: Sequence[Ints], weights: Sequence[float], seed: int) -> None:
        used = [(indices, weight) for indices, weight in zip(sources, weights, strict=True) if len(indices)]
        self._sources = [indices for indices, _ in used]
        self._shares = [max(1, round(weight * len(indices))) for indices, weight in used]
        self._seed = seed
        self._made: tuple[int, Ints] | None = None

    def __len__(self) -> int:
        """Return the number of examples per epoch."""
        return sum(self._shares)

    def taken(self, cursor: int, count: int) -> list[int]:
        """Return the examples at positions cursor .. cursor + count - 1 of the endless sequence."""
        found: list[int] = []
        while len(found) < count:
            epoch, offset = divmod(cursor + len(found), len(self))
            found += self._epoch(epoch)[offset : offset + count - len(found)].tolist()
        return found

    def _epoch(self, epoch: int) -> Ints:
        if self._made is None or self._made[0] != epoch:
            self._made = epoch, self._order(epoch)
        return self._made[1]

    def _order(self, epoch: int) -> Ints:
        parts = [self._part(number, epoch * share, share) for number, share in enumerate(self._shares)]
        if len(parts) == 1:
            return parts[0]
        return np.random.default_rng((self._seed, epoch, len(parts))).permutation(np.concatenate(parts))

    def _part(self, number: int, begin: int, count: int) -> Ints:
        """Return positions begin .. begin + count - 1 of one source's endless order: a new shuffle each pass."""
        indices = self._sources[number]
        passes = range(begin // len(indices), (begin + count - 1) // len(indices) + 1)
        one_source = len(self._sources) == 1
        orders = [
            np.random.default_rng((self._seed, one) if one_source else (self._seed, one, number)).permutation(indices)
            for one in passes
        ]
        start = begin - passes.start * len(indices)
        part: Ints = np.concatenate(orders)[start : start + count]
        return part
