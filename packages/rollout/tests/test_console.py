"""The console lines, character by character."""

import pytest

from warpsmith.evaluator.verdict import Verdict
from warpsmith.rollout.console import runtime, trajectory_lines, turn_line


def row(turn, reward, verdict, value=None, reason=None):
    return {
        "turn": turn,
        "problem": "kernelbench_1",
        "reward": reward,
        "return": value,
        "verdict": verdict and verdict.to_record(),
        "invalid_reason": reason,
    }


TURNS = [
    row(0, 0.5, Verdict("incorrect", True, False, runtime_ms=5.23, speedup=0.8), 2.5),
    row(1, 1.2, Verdict("correct", True, True, runtime_ms=3.12, speedup=1.2), 2.4),
    row(2, 3.0, Verdict("correct", True, True, runtime_ms=1.57, speedup=2.5), 3.0),
]


def test_turn_lines():
    assert [turn_line(t) for t in TURNS] == [
        "[Turn 1] kernelbench_1: Compile:✓ Correct:✗ Runtime:5.23ms Speedup:0.80x Reward:0.500",
        "[Turn 2] kernelbench_1: Compile:✓ Correct:✓ Runtime:3.12ms Speedup:1.20x Reward:1.200",
        "[Turn 3] kernelbench_1: Compile:✓ Correct:✓ Runtime:1.57ms Speedup:2.50x Reward:3.000",
    ]


def test_trajectory_summary():
    assert trajectory_lines(TURNS) == (
        "=== Final Trajectory Summary for kernelbench_1 ===\n"
        "Total turns: 3\n"
        "Turn rewards: [0.5, 1.2, 3.0]\n"
        "Aggregated return: 2.5000\n"
        "Final correctness: True\n"
        "Final speedup: 2.50x"
    )


def test_a_line_names_the_agent_and_an_optimizers_speedup_over_its_start():
    generator = TURNS[1] | {"agent": "generator", "speedup_over_start": None}
    optimizer = TURNS[2] | {"agent": "optimizer", "speedup_over_start": 2.5 / 1.2}
    assert [turn_line(generator), turn_line(optimizer)] == [
        "[Turn 2] generator on kernelbench_1: Compile:✓ Correct:✓ Runtime:3.12ms Speedup:1.20x Reward:1.200",
        "[Turn 3] optimizer on kernelbench_1: Compile:✓ Correct:✓ Runtime:1.57ms Speedup:2.50x Reward:3.000 "
        "Over start:2.08x",
    ]


def test_what_was_not_timed_is_not_available():
    line = turn_line(row(0, 0.3, Verdict("correct", True, True)))
    assert line == "[Turn 1] kernelbench_1: Compile:✓ Correct:✓ Runtime:n/a Speedup:n/a Reward:0.300"


def test_a_lost_turn_says_why():
    lost = row(1, None, None, reason="evaluation: the judge died")
    assert turn_line(lost) == "[Turn 2] kernelbench_1: invalid (evaluation: the judge died)"
    assert "Turn rewards: [0.5, invalid]" in trajectory_lines([TURNS[0], lost])


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [(None, "n/a"), (0.0012, "1.20us"), (0.0999, "99.90us"), (0.1, "0.10ms"), (5.234, "5.23ms"), (2410.0, "2.41s")],
)
def test_a_runtime_is_shown_in_a_unit_that_suits_it(milliseconds, shown):
    assert runtime(milliseconds) == shown
