"""Keys that stand in two tables of a GRPO file, or that the chosen task does not read.

The tables `[rollout]` and `[evaluator]` belong to other packages, which also serve commands that read all of their
keys. A training run refuses what it would not read.
"""

from collections.abc import Iterator

from pydantic import BaseModel

from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.rollout.config import RolloutConfig

_OF_MANY_TURNS = ("max_turns", "gamma", "success_score", "max_consecutive_failures")
_STANDS_IN_ROLLOUT = {"trials": "rollout.trials", "timeout_s": "rollout.candidate_timeout_s"}


def check_rollout_keys(rollout: RolloutConfig, evaluator: EvaluatorConfig) -> None:
    """Refuse keys that were given and that nothing reads.

    Raises:
        ValueError: naming them all, and for each what to do.
    """
    if told := [*_unread_of_rollout(rollout), *_twice(evaluator)]:
        raise ValueError("; ".join(told))


def _unread_of_rollout(rollout: RolloutConfig) -> Iterator[str]:
    if rollout.task_type == "kernelbench":
        yield from _refusals(rollout, "rollout", _OF_MANY_TURNS, 'task_type = "kernelbench_multiturn"')


def _refusals(section: BaseModel, name: str, keys: tuple[str, ...], choice: str) -> Iterator[str]:
    for key in keys:
        if key in _given(section):
            yield f"{name}.{key} is read with {name}.{choice} alone: remove it, or set that"


def _given(section: BaseModel) -> set[str]:
    """Return the keys that were given; none for a table with all of its keys, which is a dump and no file."""
    given = section.model_fields_set
    return set() if given >= type(section).model_fields.keys() else given


def _twice(evaluator: EvaluatorConfig) -> Iterator[str]:
    for key, place in _STANDS_IN_ROLLOUT.items():
        if key in _given(evaluator):
            yield f"evaluator.{key} is not read, since each evaluation of a run says it: set {place} instead"
