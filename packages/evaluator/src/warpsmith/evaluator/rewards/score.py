"""A score: what training makes of a verdict."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import TypeAlias

from warpsmith.evaluator.errors import EvaluatorError
from warpsmith.evaluator.verdict import Verdict
from warpsmith.records.errors import UsageError

Score: TypeAlias = Callable[[Verdict], float]
"""Returns the score of a verdict, any finite number. It is never called with an `invalid` one."""


class BadScoreError(EvaluatorError):
    """A score returned something else than a finite number."""


class InvalidVerdictError(EvaluatorError):
    """The evaluator failed on a candidate, which therefore gets no score. `verdict` has the cause."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(
            f"The evaluator failed, so there is no score: {verdict.error_message or 'it gave no cause'}",
            "Leave the sample out or sample again; `warpsmith-evaluator doctor` checks the machine.",
        )
        self.verdict = verdict

    def __reduce__(self) -> tuple[type["InvalidVerdictError"], tuple[Verdict]]:
        return type(self), (self.verdict,)


@dataclass(frozen=True)
class SpeedScore:
    """0 for a wrong kernel, `correct` for a right one, and `per_speedup` for each unit of its speedup up to a cap.

    Where nothing is timed, as on a CPU, a right kernel scores `correct`. `undecided` and `rejected` score 0.

    Args:
        correct: score of a right kernel without its speed.
        per_speedup: score of each unit of speedup over the reference: as fast as the reference is 1.
        cap: most units that count.
    """

    correct: float = 0.3
    per_speedup: float = 1.0
    cap: float = 10.0

    def __post_init__(self) -> None:
        for name, value in (("correct", self.correct), ("per_speedup", self.per_speedup), ("cap", self.cap)):
            if not (math.isfinite(value) and value >= 0):
                raise UsageError(f"{name} is {value!r}; a finite number of 0 or more was expected.", "Give 0.3, 1, 10.")

    def __call__(self, verdict: Verdict) -> float:
        """Return the score."""
        if not verdict.correct:
            return 0.0
        return self.correct + self.per_speedup * min(verdict.speedup or 0.0, self.cap)


def scored(score: Score, verdict: Verdict) -> float:
    """Return the score of a verdict.

    Raises:
        InvalidVerdictError: the verdict is `invalid`.
        BadScoreError: the score is not a finite number.
    """
    if verdict.status == "invalid":
        raise InvalidVerdictError(verdict)
    value = score(verdict)
    if not isinstance(value, Real) or not math.isfinite(value):
        shown = repr(value) if isinstance(value, Real) else f"an object of the type {type(value).__name__}"
        raise BadScoreError(
            f"The score of a verdict of status {verdict.status} is {shown}; a finite number was expected.",
            "Fix the score; `verdict.speedup` is None where nothing was timed.",
        )
    return float(value)
