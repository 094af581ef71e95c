"""Statistics of two sides' log-probabilities of the same tokens: differences of weights, and rounding."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

_HIGH = 0.9
"""Share of the tokens' weight with gaps up to `Gaps.high`."""
_RESOLVED = 2.0
"""A sampler's changes are checked if the trainer's mean change is this many times the mean rounding gap."""
_FLAT = 0.05
"""How far from 1 the slope may be if rounding is negligible compared with the change."""
_DEVIATIONS = 4.0
"""Limit of the slope's distance, in standard deviations of the median: rejects one right update in 30,000."""


@dataclass(frozen=True)
class Gaps:
    """Differences between a sampler's log-probabilities of T tokens and the trainer's, in nats.

    A token has the weight sqrt(p), p by the trainer. Rounding moves improbable tokens most (in bfloat16 by more than 1
    nat), and they matter least: sqrt(p) * |gap| is the token's first-order contribution to the Hellinger distance.

    Attributes:
        mean: weighted mean of |gap|.
        high: nine tenths of the weight have gaps up to this.
        shift: weighted mean of the signed gaps, sampler minus trainer.
        largest: |gap| of the worst token, unweighted; infinite if a value is not finite.
        worst: index of that token.
    """

    mean: float
    high: float
    shift: float
    largest: float
    worst: int

    @classmethod
    def of(cls, expected: Sequence[float], found: Sequence[float]) -> "Gaps":
        """Return the statistics of at least one token; `expected` is the trainer's side, `found` the sampler's."""
        gaps_T = np.asarray(found, dtype=np.float64) - np.asarray(expected, dtype=np.float64)
        # NaN or infinity is the worst gap in every statistic, and above every bound.
        sizes_T = np.where(np.isfinite(gaps_T), np.abs(gaps_T), np.inf)
        worst = int(np.argmax(sizes_T))
        if not np.isfinite(sizes_T[worst]):
            return cls(np.inf, np.inf, np.inf, np.inf, worst)
        weights_T = token_weights(expected)
        return cls(
            mean=float(np.average(sizes_T, weights=weights_T)),
            high=weighted_quantile(sizes_T, weights_T, _HIGH),
            shift=float(np.average(gaps_T, weights=weights_T)),
            largest=float(sizes_T[worst]),
            worst=worst,
        )


@dataclass(frozen=True)
class Bounds:
    """The largest allowed statistics, in nats; `largest` is infinite if single tokens are not checked."""

    mean: float
    high: float
    shift: float
    largest: float = np.inf

    def permit(self, gaps: Gaps) -> bool:
        """Whether every statistic is within its bound; false if one is NaN."""
        return bool(
            gaps.mean <= self.mean
            and gaps.high <= self.high
            and abs(gaps.shift) <= self.shift
            and gaps.largest <= self.largest
        )


@dataclass(frozen=True)
class Slope:
    """How closely a sampler's log-probabilities followed the trainer's change.

    Attributes:
        value: 1 if the sampler changed like the trainer, 0 if it kept its weights.
        low, high: `value` minus and plus four standard deviations of the median; infinite for too few tokens.
        margin: how far from 1 it may be.
    """

    value: float
    low: float
    high: float
    margin: float

    @property
    def follows(self) -> bool:
        """Whether the sampler may have changed like the trainer."""
        return self.high >= 1 - self.margin and self.low <= 1 + self.margin


def slope(trainer_T: Values, sampler_T: Values, weights_T: Values, rounding: float) -> Slope | None:
    """Return the slope of a sampler's changes against the trainer's through the origin; None if rounding hides it.

    It is the weighted median of the tokens' ratios, the slope of least absolute deviations: a few tokens that rounding
    moved far do not change it, and its deviation needs no noise model.

    Args:
        trainer_T: the trainer's log-probabilities minus those of an earlier probe.
        sampler_T: the same for the sampler.
        weights_T: weights of the tokens.
        rounding: mean gap from rounding, above 0.
    """
    pulls_T = weights_T * np.abs(trainer_T)
    resolution = float(pulls_T.sum() / weights_T.sum()) / rounding
    if not resolution >= _RESOLVED:
        return None
    moved = pulls_T > 0
    ratios, pulls = sampler_T[moved] / trainer_T[moved], pulls_T[moved]
    width = _DEVIATIONS * 0.5 * float(np.sqrt(np.sum(pulls**2)) / pulls.sum())
    value, low, high = (weighted_quantile(ratios, pulls, 0.5 + by) for by in (0.0, -width, width))
    # The trainer's own rounding is part of its change but not of the sampler's, which flattens the slope.
    return Slope(value, low, high, _FLAT + 1 / resolution**2)


def token_weights(expected: Sequence[float]) -> Values:
    """Return sqrt(p) of each token from its log-probability."""
    weights_T: Values = np.exp(0.5 * np.minimum(np.asarray(expected, dtype=np.float64), 0.0))
    return weights_T


def weighted_quantile(values: Values, weights: Values, share: float) -> float:
    """Return the smallest value that, with those below, has `share` of the weight; infinite beyond 0 and 1."""
    if not 0 <= share <= 1:
        return float(np.copysign(np.inf, share))
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    at = int(np.searchsorted(reached, share * reached[-1]))
    return float(values[order[min(at, len(order) - 1)]])
