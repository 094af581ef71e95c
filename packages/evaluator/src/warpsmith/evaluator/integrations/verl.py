"""verl: a reward function of a file, for `reward.custom_reward_function`; `verl_agent_loop` has several turns.

    python -m verl.trainer.main_ppo reward.custom_reward_function.path=pkg://warpsmith.evaluator.integrations.verl \
        reward.custom_reward_function.name=compute_score

verl has nothing for a response without a reward, so an `invalid` verdict raises InvalidVerdictError and ends the step.
Importable without verl.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from warpsmith.evaluator.integrations.conversations import rows as chats
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.recordings.library_policy import OperatorPolicy
from warpsmith.evaluator.rewards.opening import shared_grader
from warpsmith.records.errors import UsageError

__all__ = ["compute_score", "row_problem", "rows"]

DATA_SOURCE = "warpsmith"


def rows(problems: Iterable[Problem], operators: OperatorPolicy = "none") -> list[dict[str, Any]]:
    """Return rows of a Parquet data set in verl's form."""
    return [
        {
            "data_source": DATA_SOURCE,
            "prompt": row["prompt"],
            "ability": "code",
            "reward_model": {"style": "rule", "ground_truth": row["problem"]},
            "extra_info": {"name": row["name"]},
        }
        for row in chats(problems, operators)
    ]


def row_problem(row: Mapping[str, Any]) -> str:
    """Return the problem's source of a row in verl's form.

    Raises:
        UsageError: the row has none.
    """
    problem = (row.get("reward_model") or {}).get("ground_truth")
    if not problem:
        raise UsageError(
            "The row has no problem.", "Put its source into reward_model.ground_truth, as integrations.verl.rows does."
        )
    return str(problem)


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: dict[str, Any] | None = None,
    *,
    servers: list[str] | None = None,
    operators: OperatorPolicy = "none",
    **others: Any,
) -> dict[str, Any]:
    """Return the score of a response, and figures that verl logs.

    Args:
        data_source: not used.
        solution_str: the response.
        ground_truth: the problem's source.
        extra_info: not used.
        servers: evaluation servers, by `reward.custom_reward_function.reward_kwargs`.
        operators: what `forward` may compute with PyTorch besides its kernels.
        others: not used.

    Raises:
        InvalidVerdictError: the evaluator failed.
    """
    grade = await shared_grader(list(servers) if servers else None, operators=operators).grade_async(
        solution_str, ground_truth
    )
    verdict = grade.verdict
    return {
        "score": grade.score,
        "acc": float(verdict.correct),
        "compiled": float(verdict.compiled),
        "speedup": verdict.speedup or 0.0,
        "status": verdict.status,
    }
