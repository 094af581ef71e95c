"""Intervals by resampling problems: of a share of solved trajectories, and of the difference of two."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

RESAMPLES: Final = 10_000


@dataclass(frozen=True)
class Interval:
    """A mean over problems and its 95 % interval (percentile bootstrap over problems).

    Attributes:
        mean: over all problems.
        low, high: bounds; None with fewer than two problems.
        problems: how many there are.
    """

    mean: float
    low: float | None
    high: float | None
    problems: int


def interval(values: Sequence[float], *, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """Return the mean of the values, one per problem, and its interval.

    Raises:
        ZeroDivisionError: there are no values.
    """
    return _resampled(tuple(values), resamples, seed)


# A live page asks again after each step; only the last evaluation is new.
@lru_cache(maxsize=1024)
def _resampled(values: tuple[float, ...], resamples: int, seed: int) -> Interval:
    count = len(values)
    mean = sum(values) / count
    if count < 2:
        return Interval(mean, None, None, count)
    rng = random.Random(seed)
    means = sorted(sum(rng.choices(values, k=count)) / count for _ in range(resamples))
    return Interval(mean, means[int(0.025 * (resamples - 1))], means[int(0.975 * (resamples - 1))], count)


def difference(first: Mapping[str, float], second: Mapping[str, float]) -> Interval | None:
    """Return the interval of `second` minus `first`, paired by problem; None if they share no problem."""
    shared = sorted(first.keys() & second.keys())
    return interval([second[name] - first[name] for name in shared]) if shared else None
