"""Refuses keys of the tables `[rollout]` and `[evaluator]` that a training run would not read.

The tables belong to other packages, whose commands read all of their keys.
"""

from collections.abc import Iterator

from pydantic import BaseModel

from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.rollout.config import RolloutConfig, late_baselines, unasked_languages, unheard_by_servers


def check_rollout_keys(rollout: RolloutConfig, evaluator: EvaluatorConfig) -> None:
    """Refuse keys that nothing reads, a kernel language that no prompt asks for, and deadlines that are too short.

    Raises:
        ValueError: naming them all, and for each what to do.
    """
    unread = [*_unread_of_rollout(rollout), *unheard_by_servers(rollout, evaluator)]
    if errors := [*unread, *unasked_languages(rollout, evaluator), *late_baselines(rollout, evaluator)]:
        raise ValueError("; ".join(errors))


def _unread_of_rollout(rollout: RolloutConfig) -> Iterator[str]:
    if rollout.environment.type == "kernelbench" and "gamma" in _given(rollout):
        yield (
            'rollout.gamma has no effect on the one turn of rollout.environment.type = "kernelbench": remove it, or '
            'set "kernelbench_multiturn"'
        )
    if rollout.environment.type == "kernelbench_optimize" and "reward" in _given(rollout):
        yield (
            "rollout.reward scores no turn of kernelbench_optimize, whose score is the speedup over the start: remove "
            "it, and set gain_cap, loss_cap or wrong_score of [rollout.environment]"
        )


def _given(section: BaseModel) -> set[str]:
    """Return the keys that were given; none for a table with all of its keys, which is a dump and no file."""
    given = section.model_fields_set
    return set() if given >= type(section).model_fields.keys() else given
