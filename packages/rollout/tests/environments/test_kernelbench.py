"""The environments `kernelbench` and `kernelbench_multiturn`: their names, turns and end conditions."""

import pytest
from pydantic import ValidationError

from warpsmith.records.errors import UsageError
from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.environments.base import EnvironmentType
from warpsmith.rollout.environments.kernelbench import MULTI_TURN, SINGLE_TURN
from warpsmith.rollout.environments.registry import descriptions, max_turns
from warpsmith.rollout.registries import ENVIRONMENTS
from warpsmith.rollout.settings import SettingsError, checked


def multiturn(**settings):
    return MULTI_TURN.make_rules(RolloutConfig(environment=settings))


def test_the_environments_of_this_package():
    agents = {"kernelbench_generate", "kernelbench_optimize", "kernelbench_two_role"}
    assert set(descriptions()) == {"kernelbench", "kernelbench_multiturn", *agents}
    assert all(descriptions().values())
    assert ENVIRONMENTS.get("kernelbench") is SINGLE_TURN
    assert ENVIRONMENTS.get("kernelbench_multiturn") is MULTI_TURN
    assert isinstance(MULTI_TURN, EnvironmentType)


def test_an_unknown_environment_lists_the_known_and_suggests_the_closest():
    with pytest.raises(ValidationError, match="installed are kernelbench, kernelbench_generate") as caught:
        RolloutConfig(environment="kernelbench_multi_turn")
    assert "Did you mean `kernelbench_multiturn`?" in str(caught.value)


def test_settings_that_no_environment_reads_are_refused():
    with pytest.raises(SettingsError, match=r"unknown key `turns` in \[environment\]"):
        checked(RolloutConfig, {"environment": {"type": "kernelbench", "turns": 3}})
    with pytest.raises(SettingsError, match=r'`max_turns` in \[environment\]; it is a key of type = "kernel'):
        checked(RolloutConfig, {"environment": {"type": "kernelbench", "max_turns": 3}})


def test_the_rules_of_several_turns_need_their_settings():
    with pytest.raises(UsageError, match="those of the environment `kernelbench`"):
        MULTI_TURN.max_turns(RolloutConfig(environment="kernelbench"))


def test_the_single_turn_environment_ends_after_one_turn_and_its_return_is_its_reward():
    config = RolloutConfig(environment="kernelbench", gamma=0.9)
    rules = SINGLE_TURN.make_rules(config)
    assert max_turns(config) == 1
    assert rules.is_over([0.1], solved_untimed=False)
    assert rules.returns([0.7]) == [0.7]


def test_the_multi_turn_environment_has_the_configured_turns():
    assert max_turns(RolloutConfig(environment={"max_turns": 5})) == 5


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
        ([0.1, -0.2, -0.3], False, True),
        ([-0.2, 0.1], False, False),
        ([0.1, 0.1, 0.1], False, True),
    ],
)
def test_end_conditions(scores, untimed, over):
    assert multiturn().is_over(scores, solved_untimed=untimed) is over


def test_more_consecutive_failures_can_be_allowed():
    rules = multiturn(max_turns=5, max_consecutive_failures=3)
    assert not rules.is_over([0.0, 0.0], solved_untimed=False)
    assert rules.is_over([0.1, 0.0, 0.0, 0.0], solved_untimed=False)
