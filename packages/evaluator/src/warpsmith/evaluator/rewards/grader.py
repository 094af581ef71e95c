"""Grades completions, one or many, with bounded concurrency, for callers with and without an event loop."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias, Unpack

from warpsmith.evaluator.client.interface import AsyncEvaluator, EvaluationOptions
from warpsmith.evaluator.client.loop_thread import LoopThread
from warpsmith.evaluator.client.sources import GivenProblem
from warpsmith.evaluator.extract import extract_kernel
from warpsmith.evaluator.feedback import feedback, no_code
from warpsmith.evaluator.rewards.score import InvalidVerdictError, Score, SpeedScore, scored
from warpsmith.evaluator.verdict import Verdict
from warpsmith.records.errors import UsageError

OnInvalid: TypeAlias = Literal["none", "raise"]
Extract: TypeAlias = Callable[[str], str | None]
"""Takes the candidate's source out of a completion; None if it has none."""

CONCURRENCY: Final = 16
"""Evaluations that a grader asks for at once by default."""


@dataclass(frozen=True, slots=True)
class Grade:
    """What became of one completion.

    Attributes:
        verdict: the evaluator's verdict.
        score: the score; None exactly if the verdict is `invalid`.
        feedback: the findings as text, for the next turn of a conversation.
        candidate: the source that was judged; None if the completion had none.
    """

    verdict: Verdict
    score: float | None
    feedback: str
    candidate: str | None


@dataclass(frozen=True)
class GradingRules:
    """How a grader grades.

    Args:
        score: what a verdict is worth; `SpeedScore()` by default.
        on_invalid: what an `invalid` verdict gives: a grade whose score is None, or an InvalidVerdictError.
        extract: takes the candidate out of a completion; by default its last Python block with `ModelNew`.
        retries: how often a candidate whose verdict is `invalid` is judged again. `Client` does its own retries.
    """

    score: Score = field(default_factory=SpeedScore)
    on_invalid: OnInvalid = "none"
    extract: Extract = extract_kernel
    retries: int = 1

    def __post_init__(self) -> None:
        if self.on_invalid not in ("none", "raise"):
            raise UsageError(f"on_invalid is {self.on_invalid!r}; none or raise was expected.", "none is the default.")
        if self.retries < 0:
            raise UsageError(f"retries is {self.retries}; 0 or more was expected.", "1 is the default.")


class Grader:
    """Grades completions through an evaluator. A context manager; safe to use from threads and from asyncio.

    An error that `evaluate` raises (a bad problem, no server) is raised; it is about all samples and never a score.

    Args:
        evaluator: an `Evaluator`, a `Client`, or anything else that has `evaluate_async`. It stays open.
        rules: score, extraction, and what an `invalid` verdict gives.
        concurrency: evaluations asked for at once, by all callers together.
        options: `trials`, `seed`, `timeout_s`, `operators`, as for `evaluate`.

    Example:
        with Evaluator() as evaluator, Grader(evaluator) as grader:
            scores = [grade.score for grade in grader.grade_batch(completions, problems)]
    """

    def __init__(
        self,
        evaluator: AsyncEvaluator,
        rules: GradingRules | None = None,
        *,
        concurrency: int = CONCURRENCY,
        **options: Unpack[EvaluationOptions],
    ) -> None:
        if concurrency < 1:
            raise UsageError(f"concurrency is {concurrency}; 1 or more was expected.", f"{CONCURRENCY} is the default.")
        self.rules = rules or GradingRules()
        self._evaluator = evaluator
        self._options = options
        self._owned = ExitStack()
        self._loop = LoopThread("grader")
        # Used in that one loop, so it bounds callers of all threads and loops together.
        self._places = asyncio.Semaphore(concurrency)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def owning(self, resources: ExitStack) -> Self:
        """Close these resources together with the grader; return the grader."""
        self._owned = resources
        return self

    def close(self) -> None:
        """Cancel what runs; `open_grader` closes the evaluator that it opened too."""
        with self._owned:
            if self._loop.runs:
                self._loop.close()

    def grade(self, completion: str, problem: GivenProblem, **options: Unpack[EvaluationOptions]) -> Grade:
        """Return the grade of a completion, or of a candidate's bare source.

        Args:
            completion: what a model wrote.
            problem: a `Problem`, the path of its file (`pathlib.Path`), or its source.
            options: replace those of the grader.

        Raises:
            InvalidVerdictError: the evaluator failed, and `on_invalid` is `raise`.
            BadScoreError: the score returned no finite number.
            BadProblemError, EvaluatorError, UsageError: as `evaluate`.
        """
        return self._loop.run(self._grade(completion, problem, options))

    async def grade_async(self, completion: str, problem: GivenProblem, **options: Unpack[EvaluationOptions]) -> Grade:
        """As `grade`, for asyncio; cancelling the call frees its place."""
        return await self._loop.awaited(self._grade(completion, problem, options))

    def grade_batch(
        self, completions: Sequence[str], problems: Iterable[GivenProblem], **options: Unpack[EvaluationOptions]
    ) -> list[Grade]:
        """Return the grades of completions, each with its own problem, in their order.

        The first error ends the batch: the other evaluations are cancelled.

        Raises:
            UsageError: there are not as many problems as completions.
        """
        return self._loop.run(self._grade_batch(completions, list(problems), options))

    async def grade_batch_async(
        self, completions: Sequence[str], problems: Iterable[GivenProblem], **options: Unpack[EvaluationOptions]
    ) -> list[Grade]:
        """As `grade_batch`, for asyncio."""
        return await self._loop.awaited(self._grade_batch(completions, list(problems), options))

    async def _grade_batch(
        self, completions: Sequence[str], problems: list[GivenProblem], options: EvaluationOptions
    ) -> list[Grade]:
        if isinstance(completions, str) or len(completions) != len(problems):
            given = "one text" if isinstance(completions, str) else f"{len(completions)} completions"
            raise UsageError(
                f"A batch has {given} and {len(problems)} problems; one problem for each completion was expected.",
                "Repeat the problem of a group: [problem] * len(completions).",
            )
        try:
            async with asyncio.TaskGroup() as group:
                pairs = zip(completions, problems, strict=True)
                tasks = [group.create_task(self._grade(text, problem, options)) for text, problem in pairs]
        except BaseExceptionGroup as errors:
            # One cause is what a caller can handle; the others are mostly the same.
            raise errors.exceptions[0] from errors
        return [task.result() for task in tasks]

    async def _grade(self, completion: str, problem: GivenProblem, options: EvaluationOptions) -> Grade:
        candidate = self.rules.extract(completion)
        verdict = no_code() if candidate is None else await self._judged(candidate, problem, options)
        if verdict.status != "invalid":
            return Grade(verdict, scored(self.rules.score, verdict), feedback(verdict), candidate)
        if self.rules.on_invalid == "raise":
            raise InvalidVerdictError(verdict)
        return Grade(verdict, None, feedback(verdict), candidate)

    async def _judged(self, candidate: str, problem: GivenProblem, options: EvaluationOptions) -> Verdict:
        chosen: EvaluationOptions = {**self._options, **options}
        async with self._places:
            verdict = await self._evaluator.evaluate_async(problem, candidate, **chosen)
            for _ in range(self.rules.retries):
                if verdict.status != "invalid":
                    break
                verdict = await self._evaluator.evaluate_async(problem, candidate, **chosen)
            return verdict


def grade(
    completion: str,
    problem: GivenProblem,
    evaluator: AsyncEvaluator,
    rules: GradingRules | None = None,
    **options: Unpack[EvaluationOptions],
) -> Grade:
    """Return verdict, score and feedback of one completion; see `Grader.grade`.

    Args:
        completion: what a model wrote, or a candidate's bare source.
        problem: a `Problem`, the path of its file (`pathlib.Path`), or its source.
        evaluator: an `Evaluator` or a `Client`.
        rules: score, extraction, and what an `invalid` verdict gives.
        options: `trials`, `seed`, `timeout_s`, `operators`.

    Example:
        with Evaluator() as evaluator:
            print(grade(completion, Path("19_ReLU.py"), evaluator).feedback)
    """
    with Grader(evaluator, rules, **options) as grader:
        return grader.grade(completion, problem)


async def grade_async(
    completion: str,
    problem: GivenProblem,
    evaluator: AsyncEvaluator,
    rules: GradingRules | None = None,
    **options: Unpack[EvaluationOptions],
) -> Grade:
    """As `grade`, for asyncio."""
    with Grader(evaluator, rules, **options) as grader:
        return await grader.grade_async(completion, problem)


def grade_batch(
    completions: Sequence[str],
    problems: Iterable[GivenProblem],
    evaluator: AsyncEvaluator,
    rules: GradingRules | None = None,
    **options: Unpack[EvaluationOptions],
) -> list[Grade]:
    """As `grade`, for many completions at once; see `Grader.grade_batch`."""
    with Grader(evaluator, rules, **options) as grader:
        return grader.grade_batch(completions, problems)
