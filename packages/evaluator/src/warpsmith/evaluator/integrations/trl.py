"""TRL: a reward function for `GRPOTrainer(reward_funcs=...)`, and an environment whose tool judges a kernel.

    trainer = GRPOTrainer(model=..., reward_funcs=KernelReward(grader), train_dataset=Dataset.from_list(rows(problems)))

An `invalid` verdict is None, which TRL takes as "no reward": the sample counts neither in its group's baseline nor in
the loss. That holds if no other reward function scores the same sample: TRL would train it on the others' sum alone.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from warpsmith.evaluator.integrations.conversations import rows, text_of
from warpsmith.evaluator.rewards.grader import Grade, Grader
from warpsmith.records.errors import UsageError

__all__ = ["KernelEnvironment", "KernelReward", "environment_factory", "rows"]

NOTHING_CHECKED = 0.0
"""Reward of an episode without a kernel."""


class KernelReward:
    """A reward function: the scores of completions, by the column `problem` of the data set.

    Args:
        grader: grades them; it stays open.
        column: the column with the problems' sources.
    """

    def __init__(self, grader: Grader, column: str = "problem") -> None:
        self._grader = grader
        self._column = column
        # The name under which TRL logs it.
        self.__name__ = "kernel"

    def __call__(self, *, completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """Return the score of each completion, None where the evaluator failed.

        Logs the share of correct kernels, the mean speedup of those that were timed, and each status.

        Raises:
            UsageError: the data set lacks the column of problems.
        """
        if self._column not in columns:
            raise UsageError(
                f"The data set has no column {self._column!r} with the problems' sources.",
                "Make the rows by warpsmith.evaluator.integrations.trl.rows, or name the column.",
            )
        grades = self._grader.grade_batch([text_of(one) for one in completions], columns[self._column])
        _log(grades, columns)
        return [grade.score for grade in grades]


def _log(grades: Sequence[Grade], columns: dict[str, Any]) -> None:
    """Log through the functions that TRL passes."""
    log_metric, log_extra = columns.get("log_metric"), columns.get("log_extra")
    statuses = [grade.verdict.status for grade in grades]
    if log_extra is not None:
        log_extra("kernel_status", statuses)
    if log_metric is None:
        return
    for status, count in Counter(statuses).items():
        log_metric(f"kernel/{status}", count / len(grades))
    speedups = [grade.verdict.speedup for grade in grades if grade.verdict.speedup is not None]
    if speedups:
        log_metric("kernel/speedup", sum(speedups) / len(speedups))


class KernelEnvironment:
    """An environment of TRL: the policy calls `check_kernel` until it is content; its best kernel is the reward.

    Args:
        grader: grades the kernels; it stays open.
    """

    def __init__(self, grader: Grader) -> None:
        self._grader = grader
        self._problem = ""
        self._grades: list[Grade] = []

    def reset(self, *, problem: str, **columns: Any) -> None:
        """Begin an episode with a row of the data set."""
        self._problem = problem
        self._grades = []

    async def check_kernel(self, source: str) -> str:
        """
        Judge a kernel against the problem: whether it compiles, is correct, and how fast it is.

        Args:
            source: The complete Python file that defines ModelNew and its Triton kernels.

        Returns:
            The findings, one a line.
        """
        grade = await self._grader.grade_async(source, self._problem)
        self._grades.append(grade)
        return grade.feedback

    def get_reward(self) -> float | None:
        """Return the best score; 0 if nothing was checked, None if the evaluator failed on any kernel."""
        scores = [grade.score for grade in self._grades]
        if None in scores:
            return None
        return max((score for score in scores if score is not None), default=NOTHING_CHECKED)


def environment_factory(grader: Grader) -> Callable[[], KernelEnvironment]:
    """Return what `GRPOTrainer(environment_factory=...)` takes."""
    return lambda: KernelEnvironment(grader)
