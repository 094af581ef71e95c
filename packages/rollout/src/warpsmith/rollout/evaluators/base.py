"""The interface of an evaluator of candidates."""

from collections.abc import Callable
from typing import Protocol

from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.verdict import Verdict
from warpsmith.rollout.datasets import ProblemRow

OnRunning = Callable[[bool], None]


class CandidateEvaluator(Protocol):
    """`warpsmith.evaluator.Evaluator`, several of them elsewhere, or a cache in front of them."""

    async def evaluate_async(
        self,
        problem: Problem,
        candidate: str,
        *,
        trials: int | None = None,
        timeout_s: float | None = None,
        on_running: OnRunning | None = None,
    ) -> Verdict:
        """Return the verdict on one candidate.

        `on_running` is called in the caller's loop: with True when work starts or continues, with False when it waits
        for a free slot.
        """


def as_problem(row: ProblemRow) -> Problem:
    """Return a row as the evaluator's problem.

    Raises:
        BadProblemError: its source is not a problem.
    """
    return Problem(row.name, row.text, row.level, row.source)
