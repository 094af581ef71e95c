"""The registry and the end conditions of an episode."""

import pytest

from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.errors import UnknownTaskError
from warpsmith.rollout.tasks import known_tasks, task_for


def multiturn(**settings):
    return task_for(RolloutConfig(task_type="kernelbench_multiturn", **settings))


def test_known_tasks():
    assert set(known_tasks()) == {"kernelbench", "kernelbench_multiturn"}


def test_an_unknown_task_lists_the_known_and_suggests_the_near_one():
    with pytest.raises(UnknownTaskError, match="kernelbench, kernelbench_multiturn") as caught:
        task_for(RolloutConfig(task_type="kernelbench_multi_turn"))
    assert "Did you mean `kernelbench_multiturn`?" in str(caught.value)
    assert caught.value.exit_code == 2


def test_the_single_turn_task_ends_after_one_turn_and_its_return_is_its_reward():
    task = task_for(RolloutConfig(task_type="kernelbench", max_turns=5, gamma=0.9))
    assert task.is_over([0.1], solved_untimed=False)
    assert task.returns([0.7]) == [0.7]


@pytest.mark.parametrize(
    ("scores", "untimed", "over"),
    [
        ([0.1], False, False),
        ([0.0], False, False),
        ([0.0, 0.0], False, True),
        ([0.0, 0.1], False, False),
        ([0.1, 0.0], False, False),
        ([1.3], False, True),
        ([1.29], False, False),
        ([0.3], True, True),
        ([0.3], False, False),
        ([0.1, 0.1, 0.1], False, True),
    ],
)
def test_end_conditions(scores, untimed, over):
    assert multiturn().is_over(scores, solved_untimed=untimed) is over


def test_more_consecutive_failures_can_be_allowed():
    task = multiturn(max_turns=5, max_consecutive_failures=3)
    assert not task.is_over([0.0, 0.0], solved_untimed=False)
    assert task.is_over([0.1, 0.0, 0.0, 0.0], solved_untimed=False)
