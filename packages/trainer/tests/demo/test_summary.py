"""The demo's comparison: what any turn gains, and what the first turn gains, which later turns repair in part."""

import pytest

from warpsmith.evaluator.verdict import Verdict
from warpsmith.trainer.demo.run import _compared
from warpsmith.trainer.demo.summary import held_out_summary


def trajectory(problem: int, sample: int, *correct: bool) -> list[dict]:
    """Return the turns of a trajectory, by whether each is right."""
    verdicts = [Verdict("correct" if right else "incorrect", True, right).to_record() for right in correct]
    return [
        {
            "problem": f"p{problem}",
            "level": 1,
            "trajectory": f"p{problem}/{sample}",
            "turn": index,
            "valid": True,
            "reward": 0.3 * verdict["correct"],
            "verdict": verdict,
        }
        for index, verdict in enumerate(verdicts)
    ]


def evaluation(*correct: bool) -> list[dict]:
    return [row for problem in range(8) for sample in range(2) for row in trajectory(problem, sample, *correct)]


def test_a_gain_of_the_first_turn_that_repairs_hide_is_reported():
    found = held_out_summary(evaluation(False, True), evaluation(True))
    assert (found["sft"]["correct"], found["grpo"]["correct"]) == (1.0, 1.0)
    assert found["difference"] == {"correct": 0.0, "ci95": [0.0, 0.0], "problems": 8}
    assert found["difference_turn_1"] == {"correct": 1.0, "ci95": [1.0, 1.0], "problems": 8}
    whole, first = _compared(found).splitlines()
    assert whole.endswith("difference +0.0%, 95 % interval +0.0% to +0.0% (no significant difference).")
    assert first == (
        "In turn 1: 0.0% after SFT, 100.0% after GRPO; difference +100.0%, 95 % interval +100.0% to +100.0% (better)."
    )


def test_what_later_turns_solve_is_no_gain_of_the_first():
    found = held_out_summary(evaluation(False, False), evaluation(False, True))
    assert found["difference"]["correct"] == 1.0
    assert found["difference_turn_1"]["correct"] == 0.0
    assert _compared(found).endswith("later turns solved 0.0% after SFT, 100.0% after GRPO.")


@pytest.mark.parametrize(("before", "after"), [([], evaluation(True)), (evaluation(True), [])])
def test_without_an_evaluation_there_is_no_comparison(before, after):
    found = held_out_summary(before, after)
    assert found["difference"] is None
    assert found["absent"] in _compared(found)
