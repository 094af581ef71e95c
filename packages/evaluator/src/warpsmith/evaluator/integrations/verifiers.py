"""verifiers: a taskset of problems whose reward is the verdict, for `vf-eval`, prime-rl and whatever loads tasksets.

`environments/warpsmith_kernels` packages it under the name that verifiers imports:

    vf-eval warpsmith-kernels --env.taskset.problems KernelBench/KernelBench --model NAME

An `invalid` verdict raises: verifiers records the error on the trace, whose reward stays None, and leaves the trace out
of means and of training.
"""

from collections.abc import Iterable
from pathlib import Path

import verifiers.v1 as vf

from warpsmith.evaluator.datasets.kernelbench import load_problems
from warpsmith.evaluator.instructions import SYSTEM, task
from warpsmith.evaluator.recordings.library_policy import OperatorPolicy
from warpsmith.evaluator.rewards.opening import shared_grader

__all__ = ["KernelTask", "KernelTaskset"]


class KernelData(vf.TaskData):  # type: ignore[misc]
    """A problem.

    Attributes:
        problem: its source.
    """

    problem: str


class KernelTaskConfig(vf.TaskConfig):  # type: ignore[misc]
    """How kernels are judged, under `--env.taskset.task`."""

    servers: tuple[str, ...] = ()
    """Evaluation servers; without any, and without WARPSMITH_EVALUATOR_SERVERS, kernels are judged on this machine."""
    operators: OperatorPolicy = "none"
    """What `forward` may compute with PyTorch besides its kernels."""


class KernelTask(vf.Task[KernelData, vf.State, KernelTaskConfig]):  # type: ignore[misc]
    """A kernel for one problem."""

    @vf.reward  # type: ignore[untyped-decorator]
    async def kernel(self, trace: vf.Trace) -> float:
        """Return the score of the last reply.

        Raises:
            InvalidVerdictError: the evaluator failed.
        """
        grader = shared_grader(self.config.servers or None, operators=self.config.operators)
        grade = await grader.grade_async(trace.last_reply, self.data.problem)
        verdict = grade.verdict
        trace.record_metrics({"compiled": float(verdict.compiled), "correct": float(verdict.correct)})
        if verdict.speedup is not None:
            trace.record_metric("speedup", verdict.speedup)
        trace.info["kernel"] = {"status": verdict.status, "feedback": grade.feedback}
        assert grade.score is not None  # a shared grader raises instead
        return grade.score


class KernelTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]
    """Which problems, under `--env.taskset`."""

    problems: Path = Path("KernelBench")
    """A folder or file of problems in KernelBench's form, or a checkout of KernelBench."""
    levels: tuple[int, ...] = ()
    """Levels to take; all if empty."""
    task: KernelTaskConfig = KernelTaskConfig()


class KernelTaskset(vf.Taskset[KernelTask, KernelTasksetConfig]):  # type: ignore[misc]
    """Problems in KernelBench's form."""

    def load(self) -> Iterable[KernelTask]:
        """Yield a task for each problem, in the order of the data set.

        Raises:
            DatasetError: there are none.
        """
        judged = self.config.task
        for problem in load_problems(self.config.problems, self.config.levels):
            data = KernelData(
                id=problem.source_id or problem.name,
                name=problem.name,
                prompt=task(problem.source, judged.operators),
                system_prompt=SYSTEM,
                problem=problem.source,
            )
            yield KernelTask(data, judged)
