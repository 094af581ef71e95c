"""The order of attempts: by speed, then by correctness, then by how nearly right they are."""

from collections.abc import Sequence

from warpsmith.evaluator.verdict import Verdict
from warpsmith.rollout.bench.strategies.base import Attempt

Rank = tuple[bool, float, bool, bool, float]


def rank(verdict: Verdict) -> Rank:
    """Return the sort key of a verdict; more is better.

    Correct ones come first, the fastest before all, then honest ones that compile, those with fewer wrong elements
    before others. A rejected candidate broke the rules and is worth less than a kernel that does not compile.
    """
    wrong = 1.0 if verdict.mismatched_fraction is None else verdict.mismatched_fraction
    speedup = verdict.speedup if verdict.correct and verdict.speedup is not None else 0.0
    return verdict.correct, speedup, verdict.status != "rejected", verdict.compiled, -wrong


def best_first(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return attempts from the best to the worst; of equals the earlier one is better."""
    return sorted(attempts, key=lambda attempt: rank(attempt.verdict), reverse=True)


def best_of(attempts: Sequence[Attempt]) -> Attempt | None:
    """Return the best attempt, the earliest of equals; None if there are none."""
    return max(attempts, key=lambda attempt: rank(attempt.verdict), default=None)
