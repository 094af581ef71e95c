"""One evaluation as a caller asks for it, checked before it goes anywhere. Torch-free."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Self, TypeGuard

from warpsmith.evaluator.baselines import BaselineName, baselines_of
from warpsmith.evaluator.client.interface import EvaluationOptions, GivenBaseline
from warpsmith.evaluator.client.sources import (
    GivenCandidate,
    GivenProblem,
    is_like_a_path,
    pass_a_path,
    problem_of,
    source_of,
)
from warpsmith.evaluator.config import MAX_TIMEOUT_S
from warpsmith.evaluator.errors import EvaluatorError
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.recordings.library_policy import POLICIES, OperatorPolicy
from warpsmith.evaluator.verdict import Verdict
from warpsmith.evaluator.workloads import in_own_words, workloads_of
from warpsmith.records.errors import UsageError

MAX_SOURCE_BYTES: Final = 4 << 20
MAX_TRIALS: Final = 1000


@dataclass(frozen=True)
class EvaluationRequest:
    """What `evaluate` was called with; None means the evaluator's own setting."""

    problem: Problem
    candidate: str
    trials: int | None = None
    seed: int | None = None
    timeout_s: float | None = None
    operators: OperatorPolicy | None = None
    baseline: tuple[BaselineName, ...] | None = None

    @classmethod
    def of(
        cls,
        problem: GivenProblem,
        candidate: GivenCandidate,
        *,
        trials: int | None = None,
        seed: int | None = None,
        timeout_s: float | None = None,
        operators: OperatorPolicy | None = None,
        baseline: GivenBaseline | None = None,
    ) -> Self:
        """Return the request with its files read.

        Raises:
            UsageError: an argument has the wrong type or range: it would weaken a check, or the candidate would be
                blamed for it.
            BadProblemError: the problem's file cannot be read, it holds no problem, or its workloads are malformed.
            EvaluatorError: a source is too long.
        """
        names = None if baseline is None else checked_baselines(baseline)
        request = cls(problem_of(problem), source_of(candidate), trials, seed, timeout_s, operators, names)
        request._check()
        return request

    @classmethod
    def from_options(cls, problem: GivenProblem, candidate: GivenCandidate, options: EvaluationOptions) -> Self:
        """Return the request with the keyword arguments that a caller was given; errors as for `of`."""
        names = ("trials", "seed", "timeout_s", "operators", "baseline")
        return cls.of(problem, candidate, **{name: options.get(name) for name in names})  # type: ignore[arg-type]

    @property
    def options(self) -> EvaluationOptions:
        """The keyword arguments that it was made with; `baseline` only if it was given."""
        options: EvaluationOptions = {
            "trials": self.trials,
            "seed": self.seed,
            "timeout_s": self.timeout_s,
            "operators": self.operators,
        }
        if self.baseline is not None:
            options["baseline"] = self.baseline
        return options

    @cached_property
    def workloads(self) -> dict[str, Self]:
        """One request for each workload of the problem, by name; empty if the problem has only its own inputs."""
        return {one.name: replace(self, problem=one.problem) for one in workloads_of(self.problem)}

    def in_own_words(self, message: str, workload: Self) -> str:
        """Return a message about one of `workloads` with the lines that it quotes as this problem has them."""
        return in_own_words(message, self.problem, workload.problem)

    @property
    def refusal(self) -> Verdict | None:
        """The verdict on a candidate whose text is a path instead of source; None for any other.

        It is a verdict and no exception, since a model may have written it.
        """
        if not is_like_a_path(self.candidate):
            return None
        text = self.candidate.strip()
        message = f"The candidate is the text {text!r}, a path and no source. {pass_a_path(text)}"
        return Verdict(
            "compile_error", compiled=False, correct=False, error_category="parse_error", error_message=message
        )

    def _check(self) -> None:
        trials, seed, timeout_s = self.trials, self.seed, self.timeout_s
        if trials is not None and not (_is_integer(trials) and 1 <= trials <= MAX_TRIALS):
            raise UsageError(f"trials is {trials!r}; an integer from 1 to {MAX_TRIALS} was expected.", "6 is usual.")
        if seed is not None and not (_is_integer(seed) and 0 <= seed < 1 << 128):
            raise UsageError(f"seed is {seed!r}; an integer from 0 to 2**128 - 1 was expected.", "None draws one.")
        if timeout_s is not None and not (isinstance(timeout_s, int | float) and 0 < timeout_s <= MAX_TIMEOUT_S):
            raise UsageError(
                f"timeout_s is {timeout_s!r}; seconds above 0 up to {MAX_TIMEOUT_S} were expected.", "30 is usual."
            )
        if self.operators is not None and self.operators not in POLICIES:
            raise UsageError(
                f"operators is {self.operators!r}; one of {', '.join(POLICIES)} was expected.", "none is the strictest."
            )
        problems = [one.problem for one in self.workloads.values()] or [self.problem]
        if max(len(self.candidate), *(len(problem.source) for problem in problems)) > MAX_SOURCE_BYTES:
            raise EvaluatorError(f"A source has more than {MAX_SOURCE_BYTES} characters.", "Give a smaller one.")


def checked_baselines(given: GivenBaseline) -> tuple[BaselineName, ...]:
    """Return baselines by name; UsageError for what names none."""
    try:
        return baselines_of(given)
    except ValueError as error:
        raise UsageError(f"baseline: {error}.", "eager is the reference as it is.") from error


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
