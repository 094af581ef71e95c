"""Rates, pass@k and the paired bootstrap."""

import itertools
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.verdict import Verdict
from warpsmith.records.errors import UsageError
from warpsmith.rollout.metrics import AgentRates, compare, gains, pass_at_k, solved_shares, summarise


def turn(problem, sample, index, status, *, level=1, speedup=None, valid=True):
    verdict = Verdict(status, status in ("correct", "incorrect"), status == "correct", speedup=speedup)
    return {
        "problem": problem,
        "level": level,
        "trajectory": f"{problem}/{sample}",
        "turn": index,
        "valid": valid,
        "verdict": verdict.to_record() if valid else None,
    }


ROWS = [
    turn("p", 0, 0, "compile_error"),
    turn("p", 0, 1, "correct"),
    turn("p", 1, 0, "incorrect"),
    turn("p", 1, 1, "incorrect"),
    turn("q", 0, 0, "compile_error", level=2),
    turn("q", 1, 0, "correct", level=2),
    turn("q", 2, 0, "correct", level=2, valid=False),
]


def test_rates_by_hand():
    result = summarise(ROWS[::-1])
    assert (result.rates.trajectories, result.rates.compiled, result.rates.correct) == (4, 0.75, 0.5)
    assert result.invalid == 1
    assert result.pass_at == {1: 0.5, 2: 1.0}
    first, second = result.by_turn
    assert (first.turn_number, second.turn_number) == (1, 2)
    assert (first.reached, first.correct, first.solved_by) == (4, 0.25, 0.25)
    assert (second.reached, second.correct, second.solved_by) == (2, 0.5, 0.5)
    assert {level: r.correct for level, r in result.by_level.items()} == {"1": 0.5, "2": 0.5}
    assert result.speedup is None
    assert result.fast_p is None


def test_each_agent_has_rates_of_its_own():
    rows = [
        turn("p", 0, 0, "incorrect") | {"agent": "generator", "reward": 0.1},
        turn("p", 0, 1, "correct", speedup=1.0) | {"agent": "generator", "reward": 0.3},
        turn("p", 0, 2, "correct", speedup=2.0) | {"agent": "optimizer", "reward": 1.0, "speedup_over_start": 2.0},
        turn("p", 0, 3, "correct", speedup=0.5) | {"agent": "optimizer", "reward": -0.5, "speedup_over_start": 0.5},
        turn("p", 1, 0, "incorrect") | {"agent": "generator", "reward": 0.1},
        turn("p", 2, 0, "correct", speedup=1.0) | {"agent": "generator", "reward": 0.3},
        turn("p", 2, 1, "incorrect") | {"agent": "optimizer", "reward": -1.0},
    ]
    found = summarise(rows).by_agent
    assert found["generator"] == AgentRates(3, 4, pytest.approx(2 / 3), pytest.approx(0.2), None, None)
    assert found["optimizer"] == AgentRates(2, 3, 0.5, pytest.approx(-0.5 / 3), 0.5, pytest.approx(2.0))
    assert summarise(ROWS).by_agent == {}


def test_speedups_count_only_where_correct():
    rows = [
        turn("p", 0, 0, "correct", speedup=2.0),
        turn("p", 1, 0, "incorrect", speedup=9.0),
        turn("p", 2, 0, "correct", speedup=0.5),
    ]
    result = summarise(rows)
    assert result.speedup == pytest.approx(1.0)
    assert result.fast_p == {0.0: 2 / 3, 0.5: 1 / 3, 0.8: 1 / 3, 1.0: 1 / 3, 1.2: 1 / 3, 1.5: 1 / 3, 2.0: 0.0}


def test_speed_by_turn_is_that_of_the_best_turn_so_far():
    rows = [
        turn("p", 0, 0, "correct", speedup=0.5),
        turn("p", 0, 1, "correct", speedup=2.0),
        turn("p", 1, 0, "compile_error"),
        turn("p", 1, 1, "correct", speedup=1.1),
        turn("q", 0, 0, "correct", speedup=3.0),
    ]
    first, second = summarise(rows).by_turn
    assert (first.speedup, second.speedup) == (pytest.approx(1.5**0.5), pytest.approx(6.6 ** (1 / 3)))
    assert (first.fast_p[1.0], second.fast_p[1.0], second.fast_p[1.2]) == (1 / 3, 1.0, 2 / 3)


def test_gains_pair_problems_and_compare_speed_where_both_solve():
    before = [
        turn("p", 0, 0, "correct", speedup=0.5),
        turn("q", 0, 0, "incorrect"),
        turn("r", 0, 0, "correct", speedup=8.0),
        turn("only before", 0, 0, "correct", speedup=9.0),
    ]
    after = [
        turn("p", 0, 0, "correct", speedup=1.0),
        turn("q", 0, 0, "correct", speedup=1.5),
        turn("r", 0, 0, "incorrect"),
    ]
    found = gains(before, after)
    assert (found["solved"].first, found["solved"].second, found["solved"].problems) == (2 / 3, 2 / 3, 3)
    assert found["fast_1.2"].difference == pytest.approx(0.0)
    assert (found["fast_2"].first, found["fast_2"].second) == (1 / 3, 0.0)
    assert (found["log_speedup"].problems, found["log_speedup"].difference) == (1, pytest.approx(math.log(2)))
    untimed = [turn("p", 0, 0, "correct"), turn("q", 0, 0, "incorrect")]
    assert set(gains(untimed, untimed)) == {"solved"}
    assert set(gains(untimed, after)) == {"solved"}


def test_results_survive_json():
    result = summarise(ROWS)
    assert solved_shares(json.loads(json.dumps(result.to_json()))) == {"p": 0.5, "q": 0.5}


@given(st.integers(1, 7), st.data())
def test_pass_at_k_is_the_share_of_subsets_that_hold_a_right_one(samples, data):
    solved = data.draw(st.integers(0, samples))
    k = data.draw(st.integers(1, samples))
    subsets = list(itertools.combinations([True] * solved + [False] * (samples - solved), k))
    assert pass_at_k(samples, solved, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


def test_a_clear_difference_is_found_and_none_is_not():
    names = [f"p{i}" for i in range(60)]
    low, high = dict.fromkeys(names, 0.1), dict.fromkeys(names, 0.6)
    better = compare(low, high)
    assert (better.difference, better.low, better.probability) == (pytest.approx(0.5), pytest.approx(0.5), 1.0)
    mixed = compare(low, {name: 0.1 + (0.1 if i % 2 else -0.1) for i, name in enumerate(names)})
    assert mixed.low < 0 < mixed.high


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 1), min_size=1))
def test_the_interval_holds_the_difference_and_swapping_negates(shares):
    other = {name: 1 - value for name, value in shares.items()}
    one, back = compare(shares, other, resamples=200), compare(other, shares, resamples=200)
    assert one.difference == pytest.approx(-back.difference)
    assert one.low - 1e-9 <= one.high


def test_nothing_to_summarise_or_compare_is_refused():
    with pytest.raises(UsageError, match="no turns"):
        summarise([])
    with pytest.raises(UsageError, match="in common"):
        compare({"a": 1.0}, {"b": 1.0})
    with pytest.raises(UsageError, match="Not an evaluation result"):
        solved_shares({})
    with pytest.raises(UsageError, match="pass@3"):
        pass_at_k(2, 1, 3)
