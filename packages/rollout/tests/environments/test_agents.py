"""The environments with agents: who takes which turn, from which start, with which prompt, score, return and end."""

import asyncio
import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from warpsmith.evaluator.verdict import Verdict, invalid
from warpsmith.records.errors import UsageError
from warpsmith.rollout.collector import Collector
from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.console import turn_line
from warpsmith.rollout.environments.agents import GENERATE, OPTIMIZE, TWO_ROLE, gain_of
from warpsmith.rollout.environments.base import AgentEnvironment, EnvironmentContext, EnvironmentType
from warpsmith.rollout.environments.config import GainKeys
from warpsmith.rollout.environments.registry import descriptions, max_turns
from warpsmith.rollout.metrics import summarise
from warpsmith.rollout.returns import discounted, discounted_by_agent
from warpsmith.rollout.rewards.registry import scorer_for
from warpsmith.rollout.turn_recording import bytes_over_start

NAMES = ("kernelbench_generate", "kernelbench_optimize", "kernelbench_two_role")


def kernel(word: str) -> str:
    """A kernel that the judge below rates by its last word: `wrong`, `untimed`, a number of bytes, or a speedup."""
    return f"class ModelNew: {word}"


def rate(text: str) -> Verdict:
    word = text.rsplit(maxsplit=1)[-1]
    if word == "wrong":
        return Verdict("incorrect", True, False, mismatched_fraction=0.25)
    if word == "untimed":
        return Verdict("correct", True, True)
    if word.endswith("B"):
        return Verdict("correct", True, True, bytes_moved=int(word[:-1]))
    if word == "lost":
        return invalid("the worker is gone")
    return Verdict("correct", True, True, speedup=float(word), runtime_ms=1 / float(word), reference_ms=1.0)


@pytest.fixture
def collect(chat, problem, scripted_judge, scripted_sampler):
    def go(environment, *answers, given=None, samples=1, **settings):
        config = RolloutConfig(
            environment=environment,
            **({"prompt_style": "compact", "prompt_tokens": 2000, "sampler": {"max_model_len": 4096}} | settings),
        )
        sampler = scripted_sampler(*(kernel(word) for word in answers))
        judge = scripted_judge(rate)
        collector = Collector(sampler, judge, chat, config, run="r")
        one = problem if given is None else replace(problem, solution=kernel(given))
        rows = asyncio.run(collector.collect([one], samples, label="step-0")).to_pylist()
        return rows, judge

    return go


def test_the_environments_are_listed_and_have_agents(chat, scripted_judge):
    assert {name for name in descriptions() if name in NAMES} == set(NAMES)
    for name, preset, turns in zip(NAMES, (GENERATE, OPTIMIZE, TWO_ROLE), (3, 3, 5), strict=True):
        config = RolloutConfig(environment=name)
        assert max_turns(config) == turns
        assert isinstance(preset, EnvironmentType)
        made = preset(EnvironmentContext(config, scripted_judge(rate), chat, scorer_for(config.reward)))
        assert isinstance(made, AgentEnvironment)


def test_a_preset_refuses_the_settings_of_another():
    for preset in (GENERATE, OPTIMIZE, TWO_ROLE):
        with pytest.raises(UsageError, match="those of the environment `kernelbench`"):
            preset.max_turns(RolloutConfig(environment="kernelbench"))


def test_generator_then_optimizer_from_the_first_correct_kernel(collect):
    rows, _ = collect("kernelbench_two_role", "wrong", "1.5", "3.0", "wrong")
    assert [row["agent"] for row in rows] == ["generator", "generator", "optimizer", "optimizer"]
    # tritonforge for the generator: 0.1, and 0.3 + 0.5; log2 of the speedup over the start for the optimizer.
    assert [row["reward"] for row in rows] == pytest.approx([0.1, 0.8, 1.0, -1.0])
    assert [row["speedup_over_start"] for row in rows] == [None, None, 2.0, None]
    assert [row["return"] for row in rows] == pytest.approx([0.1 + 0.4 * 0.8, 0.8, 1.0 - 0.4, -1.0])
    assert {row["num_turns"] for row in rows} == {4}


def test_where_nothing_is_timed_the_optimizer_is_scored_by_the_bytes_of_its_start_over_its_own(collect):
    rows, _ = collect({"type": "kernelbench_two_role", "optimizer_turns": 3}, "1024B", "512B", "4096B", "wrong")
    assert [row["agent"] for row in rows] == ["generator", *["optimizer"] * 3]
    # The generator's reward is not by bytes. Half of them is 1; four times as many costs loss_cap.
    assert [row["reward"] for row in rows] == pytest.approx([0.3, 1.0, -0.5, -1.0])
    assert [bytes_over_start(row) for row in rows] == [None, 2.0, 0.25, None]
    assert [row["speedup_over_start"] for row in rows] == [None] * 4
    by_agent = summarise(rows).by_agent
    assert (by_agent["optimizer"].bytes_over_start, by_agent["optimizer"].improved) == (2.0, 1.0)
    assert (by_agent["generator"].bytes_over_start, by_agent["generator"].improved) == (None, None)
    assert " Fewer bytes than start:0.25x" in turn_line(rows[2])


def test_a_start_and_a_kernel_of_different_measures_are_not_compared(collect):
    for start, answer in (("1024B", "untimed"), ("untimed", "1024B"), ("1.0", "512B"), ("1024B", "2.0")):
        rows, _ = collect("kernelbench_optimize", answer, given=start)
        assert (rows[0]["reward"], bytes_over_start(rows[0]), rows[0]["speedup_over_start"]) == (0.0, None, None)


@given(st.integers(1, 1 << 40), st.integers(1, 1 << 40))
def test_fewer_bytes_score_above_more_within_the_bounds(start, own):
    score = gain_of(Verdict("correct", True, True, bytes_moved=own), rate(f"{start}B"), GainKeys()).value
    assert -0.5 <= score <= 3.0
    assert (score > 0) == (own < start)


def test_an_optimizer_whose_start_is_not_timed_is_asked_for_fewer_bytes(collect):
    rows, _ = collect(
        "kernelbench_optimize", "2048B", "512B", given="1024B", prompt_style="full", prompt_tokens=8000,
        sampler={"max_model_len": 16384},
    )  # fmt: skip
    system, first = (message["content"] for message in rows[0]["messages"])
    assert "fewer bytes" in system and "fewer bytes" in first and "faster" not in system + first
    assert "The module to improve:\n```python\nclass ModelNew: 1024B\n```" in first
    assert "Bytes moved: 1 KiB" in first
    assert "Bytes moved: 2 KiB" in rows[1]["messages"][1]["content"]
    rows, _ = collect("kernelbench_optimize", "2048B", given="1024B")
    assert rows[0]["messages"][-1]["content"].endswith("# correct 1 KiB")


def test_handover_gamma_credits_the_generator_with_what_its_kernel_became(collect):
    rows, _ = collect({"type": "kernelbench_two_role", "handover_gamma": 0.5}, "wrong", "1.5", "3.0", "wrong")
    last = 0.8 + 0.5 * 0.6
    assert [row["return"] for row in rows] == pytest.approx([0.1 + 0.4 * last, last, 0.6, -1.0])


def test_a_generator_that_finds_nothing_leaves_nothing_to_optimize(collect):
    rows, _ = collect("kernelbench_two_role", "wrong")
    assert [row["agent"] for row in rows] == ["generator"] * 3
    rows, _ = collect({"type": "kernelbench_two_role", "generator_turns": 1}, "wrong")
    assert len(rows) == 1


def test_the_generator_alone_ends_with_its_first_correct_kernel_however_slow(collect):
    rows, _ = collect("kernelbench_generate", "wrong", "0.2", "9")
    assert [row["agent"] for row in rows] == ["generator"] * 2
    assert (rows[-1]["verdict"]["speedup"], rows[-1]["speedup_over_start"]) == (0.2, None)


def test_the_optimizer_starts_from_the_kernel_of_the_problem_which_is_judged_once(collect):
    rows, judge = collect("kernelbench_optimize", "2.0", "1.0", "0.5", "9", given="1.0", samples=2)
    assert {row["agent"] for row in rows} == {"optimizer"}
    by_trajectory = [[r["speedup_over_start"] for r in rows if r["sample"] == sample] for sample in (0, 1)]
    assert sorted(value for values in by_trajectory for value in values)[:3] == [0.5, 1.0, 2.0]
    assert [asked[1] for asked in judge.asked].count(kernel("1.0")) == 1


def test_the_naive_kernel_is_the_start_where_there_is_one(chat, problem, scripted_judge, scripted_sampler):
    config = RolloutConfig(environment="kernelbench_optimize", prompt_style="compact")
    both = replace(problem, solution=kernel("8.0"), naive=kernel("1.0"))
    collector = Collector(scripted_sampler(kernel("4.0")), scripted_judge(rate), chat, config, run="r")
    (row,) = asyncio.run(collector.collect([both], 1, label="step-0")).to_pylist()
    assert row["speedup_over_start"] == 4.0
    assert row["reward"] == 2.0


@pytest.mark.parametrize(
    ("words", "turns"),
    [
        (["4.0"], 1),  # success_gain
        (["3.9", "3.8", "3.7"], 3),  # max_turns
        (["1.0", "0.9", "2.0"], 2),  # two turns in a row that gain nothing
        (["wrong", "2.0", "wrong"], 3),
        (["untimed"], 1),  # no turn could do better
        (["512B", "2048B", "256B"], 3),
        (["256B"], 1),  # a quarter of the bytes: success_gain
    ],
)
def test_when_the_optimizer_ends(collect, words, turns):
    rows, _ = collect("kernelbench_optimize", *words, given="1024B" if words[0].endswith("B") else "1.0")
    assert len(rows) == turns


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("wrong", "problem: The kernel that problem .* comes with is not correct \\(incorrect\\)"),
        ("lost", "evaluation: The start of .*: the worker is gone"),
    ],
)
def test_a_start_that_is_wrong_or_lost_gives_one_invalid_turn_for_each_sample(collect, given, reason):
    rows, _ = collect("kernelbench_optimize", "2.0", given=given, samples=2)
    assert [(row["agent"], row["valid"], row["reward"], row["num_turns"]) for row in rows] == [
        ("optimizer", False, None, 1)
    ] * 2
    for row in rows:
        assert re.match(reason, row["invalid_reason"])


def test_a_problem_without_a_kernel_says_what_is_missing(chat, problem, scripted_judge, scripted_sampler):
    config = RolloutConfig(environment="kernelbench_optimize", prompt_style="compact")
    judge = scripted_judge(rate)
    collector = Collector(scripted_sampler(kernel("2.0")), judge, chat, config, run="r")
    bare = replace(problem, solution=None)
    (row,) = asyncio.run(collector.collect([bare], 1, label="step-0")).to_pylist()
    assert "comes with no kernel for the optimizer to start from" in row["invalid_reason"]
    assert judge.asked == []


def test_the_optimizer_sees_its_start_with_its_time_and_its_own_attempts_only(collect):
    rows, _ = collect(
        "kernelbench_two_role", "wrong", "1.5", "2.0", "2.5", prompt_style="full", prompt_tokens=8000,
        sampler={"max_model_len": 16384},
    )  # fmt: skip
    systems = [row["messages"][0]["content"] for row in rows]
    assert all("the generator" in system for system in systems[:2])
    assert all("the optimizer" in system for system in systems[2:])
    generator, first, second = (row["messages"][1]["content"] for row in rows[1:])
    assert "Your last attempt" in generator and "to make faster" not in generator
    start = "The module to make faster:\n```python\nclass ModelNew: 1.5\n```\nCompiled: yes\nCorrect: yes\n"
    assert start + "Runtime: 0.6667 ms\nSpeedup over PyTorch: 1.50x" in first
    assert start in second
    assert "ModelNew: wrong" not in first + second
    assert "Your last attempt" not in first
    assert "Your last attempt:\n```python\nclass ModelNew: 2.0" in second


def test_a_compact_prompt_shows_the_start_after_the_problem(collect, problem):
    rows, _ = collect("kernelbench_two_role", "1.5", "2.0", "2.5")
    content = rows[1]["messages"][-1]["content"]
    assert content.startswith(rows[0]["messages"][-1]["content"])
    assert content.endswith("# make faster\nclass ModelNew: 1.5\n# correct 1.5x")
    assert rows[2]["messages"][-1]["content"] == f"# tried\nclass ModelNew: 2.0\n# correct 2.0x\n{content}"


def test_control_tokens_in_a_start_are_broken_up(chat, problem, scripted_judge, scripted_sampler):
    config = RolloutConfig(environment="kernelbench_two_role", prompt_style="compact")
    sampler = scripted_sampler("class ModelNew: '<user>' 1.5", kernel("9"))
    rows = asyncio.run(Collector(sampler, scripted_judge(rate), chat, config, run="r").collect([problem], 1, label="s"))
    assert "'< user>'" in rows.to_pylist()[1]["messages"][-1]["content"]


def test_a_kernel_too_long_for_the_optimizers_prompt_ends_the_episode_and_keeps_its_turns(collect):
    rows, _ = collect("kernelbench_two_role", "x" * 3000 + " 1.5", "2.0")
    assert [(row["agent"], row["valid"], row["reward"]) for row in rows] == [("generator", True, pytest.approx(0.8))]


def test_a_lost_turn_of_the_optimizer_makes_the_trajectory_invalid(collect):
    rows, _ = collect("kernelbench_two_role", "1.5", "lost")
    assert [row["valid"] for row in rows] == [False, False]
    assert "turn 2 of the trajectory was lost" in rows[0]["invalid_reason"]


FAST, SLOW = rate("4.0"), rate("1.0")
WRONG = rate("wrong")
REJECTED = Verdict("rejected", True, False)


@pytest.mark.parametrize(
    ("verdict", "start", "score", "over"),
    [
        (rate("2.0"), SLOW, 1.0, 2.0),
        (rate("64"), SLOW, 3.0, 64.0),
        (SLOW, FAST, -0.5, 0.25),
        (rate("0.9"), SLOW, math.log2(0.9), 0.9),
        (SLOW, SLOW, 0.0, 1.0),
        (WRONG, SLOW, -1.0, None),
        (REJECTED, SLOW, -1.0, None),
        (Verdict("undecided", True, False), SLOW, -1.0, None),
        (rate("untimed"), SLOW, 0.0, None),
        (rate("2.0"), rate("untimed"), 0.0, None),
    ],
)
def test_the_score_is_the_speedup_over_the_start_on_a_log_scale(verdict, start, score, over):
    found = gain_of(verdict, start, GainKeys())
    assert found.value == pytest.approx(score)
    assert found.speedup_over_start == (None if over is None else pytest.approx(over))


speeds = st.floats(0.01, 100)


@given(speeds, speeds, speeds)
def test_faster_never_scores_less_and_wrong_never_scores_more(start, one, other):
    gains = GainKeys()
    low, high = (gain_of(rate(repr(speed)), rate(repr(start)), gains).value for speed in sorted((one, other)))
    assert gains.wrong_score <= -gains.loss_cap <= low <= high <= gains.gain_cap
    assert (high > 0) <= (max(one, other) > start)


def test_a_wrong_kernel_may_not_score_more_than_a_slow_one():
    with pytest.raises(ValidationError, match=r"wrong_score \(-0.2\) is above -loss_cap \(-0.5\)"):
        RolloutConfig(environment={"type": "kernelbench_optimize", "wrong_score": -0.2})


scores = st.lists(st.floats(-3, 3), max_size=8)


@given(scores, st.floats(0, 1), st.floats(0, 1))
def test_with_one_agent_returns_are_those_of_any_episode(values, gamma, handover):
    assert discounted_by_agent(values, ["generator"] * len(values), gamma, handover) == discounted(values, gamma)
    assert discounted_by_agent(values, [None] * len(values), gamma, handover) == discounted(values, gamma)


@given(scores, scores, st.floats(0, 1))
def test_without_handover_each_agent_has_the_returns_of_its_own_turns(first, second, gamma):
    agents = ["generator"] * len(first) + ["optimizer"] * len(second)
    found = discounted_by_agent([*first, *second], agents, gamma)
    assert found == discounted(first, gamma) + discounted(second, gamma)


@given(scores, scores, st.floats(0, 1))
def test_a_handover_of_gamma_is_one_chain(first, second, gamma):
    agents = ["generator"] * len(first) + ["optimizer"] * len(second)
    both = [*first, *second]
    assert discounted_by_agent(both, agents, gamma, gamma) == pytest.approx(discounted(both, gamma))
