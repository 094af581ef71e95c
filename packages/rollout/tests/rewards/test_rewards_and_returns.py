"""Rewards and returns: hand-written tables and properties."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from warpsmith.evaluator.figures import Bound
from warpsmith.evaluator.verdict import Verdict, invalid
from warpsmith.rollout.returns import discounted
from warpsmith.rollout.rewards.config import PresetRewardConfig
from warpsmith.rollout.rewards.registry import examples, scorer_for

scores = st.lists(st.floats(0, 10), min_size=1, max_size=8)
gammas = st.floats(0, 1)
TURN = examples()[0][1]


def score(verdict, config):
    return scorer_for(config)(replace(TURN, verdict=verdict), [])


def test_the_figures_that_are_shown_as_defaults_are_those_that_count():
    shown = {name: field.default for name, field in PresetRewardConfig.model_fields.items()}
    assert PresetRewardConfig().model_dump() == shown


def correct(speedup):
    return Verdict("correct", True, True, speedup=speedup)


TRITONFORGE = [
    (Verdict("compile_error", False, False), 0.0),
    (Verdict("incorrect", True, False), 0.1),
    (Verdict("runtime_error", True, False), 0.1),
    (Verdict("timeout", False, False), 0.0),
    (Verdict("rejected", True, False, flags=("torch_fallback",)), 0.0),
    (Verdict("undecided", True, False, error_category="interpreter_differs"), 0.1),
    (Verdict("undecided", False, False, error_category="interpreter_differs"), 0.0),
    (correct(None), 0.3),
    (correct(0.5), 0.3),
    (correct(1.0), 0.3),
    (correct(1.2), 0.5),
    (correct(2.0), 1.3),
    (correct(3.0), 2.3),
    (correct(50.0), 2.3),
]
KEVIN = [(Verdict("incorrect", True, False), 0.0), (correct(None), 0.3), (correct(0.5), 0.8), (correct(4.0), 4.3)]


@pytest.mark.parametrize(("verdict", "worth"), TRITONFORGE)
def test_tritonforge(verdict, worth):
    assert score(verdict, PresetRewardConfig()).value == pytest.approx(worth)


@pytest.mark.parametrize(("verdict", "worth"), KEVIN)
def test_kevin(verdict, worth):
    assert score(verdict, PresetRewardConfig(preset="kevin")).value == pytest.approx(worth)


def at_bound(share):
    """Return a verdict on a kernel that takes `1 / share` times as long as its problem's bound of 0.1 ms."""
    return replace(
        correct(4.0), runtime_ms=0.1 / share, speedups={"eager": 4.0, "compile": 1.5}, bound=Bound(1, 0, ms=0.1)
    )


@pytest.mark.parametrize(
    ("verdict", "worth"),
    [
        (Verdict("incorrect", True, False), 0.1),
        (correct(4.0), 0.3),
        (at_bound(0.5), 1.3),
        (at_bound(1.0), 2.3),
        (at_bound(1.7), 2.3),
    ],
)
def test_the_preset_bound_pays_for_the_share_of_the_bound_and_not_for_speedups(verdict, worth):
    assert score(verdict, PresetRewardConfig(preset="bound")).value == pytest.approx(worth)


@pytest.mark.parametrize(("baseline", "worth"), [(None, 2.3), ("eager", 2.3), ("compile", 0.8)])
def test_the_speedup_over_the_named_baseline_counts(baseline, worth):
    assert score(at_bound(0.5), PresetRewardConfig(baseline=baseline)).value == pytest.approx(worth)
    assert score(correct(9.0), PresetRewardConfig(baseline="compile")).value == pytest.approx(0.3)


def test_an_invalid_verdict_is_no_reward():
    found = score(invalid("the judge died"), PresetRewardConfig())
    assert found.value is None
    assert not found.valid
    assert "the judge died" in found.invalid_reason


def test_figures_override_the_preset_and_unknown_ones_are_refused():
    config = PresetRewardConfig(preset="kevin", compiled=0.05)
    assert (config.compiled, config.correct, config.speedup_cap) == (0.05, 0.3, None)
    with pytest.raises(ValidationError, match="bonus"):
        PresetRewardConfig(bonus=1)
    with pytest.raises(ValidationError, match="preset"):
        PresetRewardConfig(preset="kevn")


def test_a_small_share_of_the_kernels_is_worth_less_where_a_setting_says_so():
    token, own, unmeasured = (replace(correct(2.0), kernel_share=share) for share in (0.02, 0.5, None))
    asking = PresetRewardConfig(min_kernel_share=0.1)
    assert [score(one, asking).value for one in (token, own, unmeasured)] == pytest.approx([0.1, 1.3, 1.3])
    weighing = PresetRewardConfig(kernel_share_weight=2.0)
    assert [score(one, weighing).value for one in (token, own, unmeasured)] == pytest.approx([1.34, 2.3, 1.3])
    assert [score(one, PresetRewardConfig()).value for one in (token, own)] == pytest.approx([1.3, 1.3])


def measured(share, speedup=2.0):
    return replace(correct(speedup), kernel_share=share)


@pytest.mark.parametrize(
    ("preset", "worth"),
    [("profiled", [1.3, 1.31, 1.55, 1.8]), ("profiled_rejection", [0.1, 0.1, 1.3, 1.3]), ("tritonforge", [1.3] * 4)],
)
def test_presets_for_the_share_of_the_kernels(preset, worth):
    config = PresetRewardConfig(preset=preset)
    assert [score(measured(share), config).value for share in (0.0, 0.02, 0.5, 1.0)] == pytest.approx(worth)


@pytest.mark.parametrize(
    "verdict",
    [
        correct(2.0),
        correct(0.5),
        Verdict("correct", True, True),
        Verdict("undecided", True, False, flags=("needs_device",)),
        Verdict("incorrect", True, False),
        Verdict("rejected", True, False),
        Verdict("compile_error", False, False),
    ],
)
@pytest.mark.parametrize("preset", ["profiled", "profiled_rejection"])
def test_what_no_gpu_measured_scores_as_without_a_share(preset, verdict):
    assert verdict.kernel_share is None
    with_share, without = (PresetRewardConfig(preset=one) for one in (preset, "tritonforge"))
    assert score(verdict, with_share) == score(verdict, without)


def test_both_ideas_together_and_a_least_share_of_ones_own():
    both = PresetRewardConfig(preset="profiled", min_kernel_share=0.3)
    found = [score(one, both).value for one in (measured(0.2), measured(0.5), correct(2.0))]
    assert found == pytest.approx([0.1, 1.55, 1.3])
    assert score(measured(0.2), PresetRewardConfig(preset="profiled_rejection", min_kernel_share=0.1)).value == 1.3


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from(["profiled", "profiled_rejection"]))
def test_a_larger_share_is_never_worth_less(one, other, preset):
    config = PresetRewardConfig(preset=preset)
    small, large = sorted([one, other])
    assert score(measured(small), config).value <= score(measured(large), config).value


WRONG, LOST = Verdict("incorrect", True, False), Verdict("compile_error", False, False)


def shaped(verdicts, config):
    """Score the last of these turns, whose earlier ones have scores that no reward gave."""
    turns = [replace(TURN, index=index, verdict=verdict, score=99.0) for index, verdict in enumerate(verdicts)]
    return scorer_for(config)(replace(turns[-1], score=None), turns[:-1]).value


@pytest.mark.parametrize(
    ("verdicts", "worth"),
    [
        ([correct(1.5)], 0.8),
        ([WRONG, correct(1.5)], 0.8 + 0.5 * (0.8 - 0.1)),
        ([correct(1.5), WRONG], 0.1 - 0.5 * (0.8 - 0.1)),
        ([correct(1.5), correct(1.5)], 0.8),
        ([correct(1.5), WRONG, correct(1.2)], 0.5 - 0.5 * (0.8 - 0.5)),
        ([WRONG, correct(1.5), LOST, correct(2.0)], 1.3 + 0.5 * (1.3 - 0.8)),
    ],
)
def test_refinement_pays_for_gains_on_the_best_turn_before(verdicts, worth):
    assert shaped(verdicts, PresetRewardConfig(preset="refinement")) == pytest.approx(worth)


@pytest.mark.parametrize(
    ("weights", "factors"), [((), [1, 1, 1]), ((0.5,), [0.5, 0.5, 0.5]), ((0.0, 2.0), [0.0, 2.0, 2.0])]
)
def test_turns_have_weights_of_which_the_last_goes_on(weights, factors):
    config = PresetRewardConfig(turn_weights=weights)
    values = [shaped([correct(1.5)] * count, config) for count in (1, 2, 3)]
    assert values == pytest.approx([0.8 * factor for factor in factors])


@given(st.floats(0, 100), st.floats(0, 100), st.floats(0, 100), st.floats(0, 3), st.floats(0, 3))
def test_after_any_turn_better_is_never_worth_less(before, one, other, improvement, regression):
    config = PresetRewardConfig(improvement_weight=improvement, regression_weight=regression)
    slow, fast = sorted([one, other])
    assert shaped([correct(before), correct(slow)], config) <= shaped([correct(before), correct(fast)], config) + 1e-9


@given(st.floats(0, 100), st.floats(0, 100), st.sampled_from(["tritonforge", "kevin", "refinement"]))
def test_faster_is_never_worth_less(one, other, preset):
    config = PresetRewardConfig(preset=preset)
    slow, fast = sorted([one, other])
    assert score(correct(slow), config).value <= score(correct(fast), config).value


@pytest.mark.parametrize(
    ("turn_scores", "gamma", "expected"),
    [
        ([1.0], 0.4, [1.0]),
        ([0.1, 0.3, 2.3], 0.4, [0.1 + 0.12 + 0.368, 0.3 + 0.92, 2.3]),
        ([0.0, 0.0, 1.0], 0.4, [0.16, 0.4, 1.0]),
        ([0.5, 0.25], 0.0, [0.5, 0.25]),
        ([0.5, 0.25], 1.0, [0.75, 0.25]),
        ([], 0.4, []),
    ],
)
def test_returns_by_hand(turn_scores, gamma, expected):
    assert discounted(turn_scores, gamma) == pytest.approx(expected)


@given(scores, gammas)
def test_returns_obey_their_recursion(turn_scores, gamma):
    returns = discounted(turn_scores, gamma)
    assert returns[-1] == turn_scores[-1]
    for t in range(len(returns) - 1):
        assert returns[t] == pytest.approx(turn_scores[t] + gamma * returns[t + 1])


@given(scores, gammas, st.floats(0, 5))
def test_returns_are_linear(turn_scores, gamma, factor):
    scaled = discounted([factor * s for s in turn_scores], gamma)
    assert scaled == pytest.approx([factor * r for r in discounted(turn_scores, gamma)], abs=1e-9)
