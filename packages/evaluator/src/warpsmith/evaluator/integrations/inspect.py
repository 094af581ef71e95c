"""Inspect AI: a task and a scorer.

    inspect eval warpsmith/kernels -T problems=KernelBench/KernelBench --model openai/NAME

An `invalid` verdict is `Score.unscored`, which metrics and reducers leave out.
"""

from pathlib import Path
from typing import Any

from inspect_ai import Task
from inspect_ai import task as task_
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState, generate, system_message

from warpsmith.evaluator.datasets.kernelbench import load_problems
from warpsmith.evaluator.instructions import SYSTEM, task
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.recordings.library_policy import OperatorPolicy
from warpsmith.evaluator.rewards.grader import Grade
from warpsmith.evaluator.rewards.opening import shared_grader
from warpsmith.evaluator.rewards.score import InvalidVerdictError

__all__ = ["kernel_scorer", "kernels"]


@task_  # type: ignore[untyped-decorator]
def kernels(
    problems: str = "KernelBench",
    levels: list[int] | None = None,
    operators: OperatorPolicy = "none",
    servers: str | list[str] | None = None,
) -> Task:
    """A Triton kernel for each problem, in one turn.

    Args:
        problems: a folder or file of problems in KernelBench's form, or a checkout of KernelBench.
        levels: levels to take; all if None.
        operators: what `forward` may compute with PyTorch besides its kernels.
        servers: evaluation servers; None judges on this machine, or asks those of WARPSMITH_EVALUATOR_SERVERS.
    """
    found = load_problems(Path(problems), levels or ())
    return Task(
        dataset=MemoryDataset([sample(problem, operators) for problem in found], name="kernels"),
        solver=[system_message(SYSTEM), generate()],
        scorer=kernel_scorer(operators, servers),
    )


def sample(problem: Problem, operators: OperatorPolicy = "none") -> Sample:
    """Return the sample of a problem, whose source `kernel_scorer` reads from the metadata."""
    return Sample(
        id=problem.source_id or problem.name,
        input=task(problem.source, operators),
        metadata={"problem": problem.source, "name": problem.name, "level": problem.level},
    )


@scorer(metrics={"*": [mean(), stderr()]})  # type: ignore[untyped-decorator]
def kernel_scorer(operators: OperatorPolicy = "none", servers: str | list[str] | None = None) -> Scorer:
    """Scores a kernel: `score`, and `compiled` and `correct` as 0 or 1.

    Args:
        operators: as for `kernels`.
        servers: as for `kernels`.
    """

    async def judged(state: TaskState, target: Target) -> Score:
        grader = shared_grader(servers, operators=operators)
        try:
            grade = await grader.grade_async(state.output.completion, state.metadata["problem"])
        except InvalidVerdictError as error:
            return Score.unscored(reason="invalid", explanation=error.message)
        return Score(
            value=_values(grade),
            answer=grade.candidate,
            explanation=grade.feedback,
            metadata={"verdict": grade.verdict.to_record()},
        )

    return judged


def _values(grade: Grade) -> dict[str, Any]:
    verdict = grade.verdict
    return {"score": grade.score, "compiled": int(verdict.compiled), "correct": int(verdict.correct)}
