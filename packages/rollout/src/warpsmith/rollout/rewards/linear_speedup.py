"""`preset`: a value for compiled, for correct and for the speedup, shaped over turns; see `PresetRewardConfig`."""

from dataclasses import dataclass
from typing import Any

from warpsmith.evaluator.verdict import Verdict
from warpsmith.rollout.rewards.config import PresetRewardConfig
from warpsmith.rollout.turns import Turn


@dataclass(frozen=True)
class LinearSpeedup:
    """A reward that is linear in the speedup between two bounds, and in the gain on the best turn before.

    Args:
        figures: its figures.
    """

    figures: PresetRewardConfig

    def __call__(self, verdict: Verdict, turn: Turn, history: tuple[Turn, ...]) -> float:
        """Return the score of a turn.

        Earlier turns are valued by their verdicts and not by their scores, which are shaped already.
        """
        value = self._value(verdict)
        score = self._turn_weight(turn.index) * value
        if history:
            gain = value - max(self._value(earlier.verdict) for earlier in history)
            score += gain * (self.figures.improvement_weight if gain > 0 else self.figures.regression_weight)
        return score

    def _turn_weight(self, index: int) -> float:
        weights = self.figures.turn_weights
        return weights[min(index, len(weights) - 1)] if weights else 1.0

    def _value(self, verdict: Verdict) -> float:
        figures = self.figures
        share = verdict.kernel_share
        if verdict.correct and share is not None and share < figures.min_kernel_share:
            return figures.compiled
        if verdict.correct:
            gain = figures.speedup_weight * self._gain(self._speedup(verdict))
            reached = figures.bound_weight * min(verdict.bound_share or 0.0, 1.0)
            return figures.correct + gain + figures.kernel_share_weight * (share or 0.0) + reached
        # A rejected candidate broke the rules: it must not earn what an honest attempt earns. An `undecided` one earns
        # as much as a compiled and wrong one, so that nothing is gained by code that only a GPU could decide.
        return figures.compiled if verdict.compiled and verdict.status != "rejected" else 0.0

    def _speedup(self, verdict: Verdict) -> float | None:
        """Return the speedup over the baseline that counts."""
        name = self.figures.baseline
        return verdict.speedup if name is None else verdict.speedups.get(name)

    def _gain(self, speedup: float | None) -> float:
        if speedup is None:
            return 0.0
        gain = max(speedup - self.figures.speedup_from, 0.0)
        return gain if self.figures.speedup_cap is None else min(gain, self.figures.speedup_cap)


def make(**settings: Any) -> LinearSpeedup:
    """Return the reward of the table `[rollout.reward]`; missing keys come from its preset."""
    return LinearSpeedup(PresetRewardConfig(**settings))
