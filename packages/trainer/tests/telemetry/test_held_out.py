"""What is kept of held-out evaluations where one of them, or the comparison, cannot be had."""

import pytest

from warpsmith.trainer.telemetry import held_out


def test_an_evaluation_without_a_valid_turn_leaves_its_reason(tmp_path) -> None:
    assert held_out.absence(tmp_path) is None
    assert not held_out.is_concluded(tmp_path)
    held_out.keep_figures(tmp_path, "before", 0, {"solved_rate": 0.5})
    held_out.keep_absence(tmp_path, "after", "None of the 8 turns could be judged.")
    assert held_out.absence(tmp_path) == "None of the 8 turns could be judged."
    assert held_out.is_concluded(tmp_path)
    assert held_out.is_kept(tmp_path, "before") and not held_out.is_kept(tmp_path, "after")


def test_an_evaluation_made_later_takes_the_reason_away(tmp_path) -> None:
    held_out.keep_absence(tmp_path, "after", "no judge")
    held_out.keep_figures(tmp_path, "after", 4, {"solved_rate": 0.5})
    assert held_out.absence(tmp_path) is None
    assert held_out.is_concluded(tmp_path)


def test_the_best_score_of_two_agents_is_the_sum_of_each_ones_best_and_a_start_remains(turns_table) -> None:
    def turn(trajectory: str, index: int, agent: str | None, reward: float) -> dict[str, object]:
        return {"trajectory": trajectory, "turn": index, "num_turns": 3, "agent": agent, "reward": reward}

    gained = [turn("a", 0, "generator", 0.1), turn("a", 1, "generator", 0.3), turn("a", 2, "optimizer", 1.0)]
    spoilt = [turn("b", 0, "generator", 0.3), turn("b", 1, "optimizer", -1.0)]
    assert held_out.figures_of(turns_table([*gained, *spoilt]))[held_out.SCORE] == pytest.approx((1.3 + 0.3) / 2)
    plain = [turn("a", 0, None, -0.5), turn("a", 1, None, -0.2)]
    assert held_out.figures_of(turns_table(plain))[held_out.SCORE] == -0.2


def test_without_both_evaluations_there_is_no_gain() -> None:
    assert held_out.gain_of([], []) == "there is no evaluation before training"


def test_single_steps_are_kept_beside_before_and_after_and_the_best_is_known(tmp_path) -> None:
    held_out.keep_figures(tmp_path, "before", 0, {held_out.SCORE: 0.2})
    held_out.keep_figures(tmp_path, 20, 20, {held_out.SCORE: 0.6})
    held_out.keep_figures(tmp_path, 40, 40, {held_out.SCORE: 0.5})
    assert held_out.best_step(tmp_path) == 20
    assert [held_out.score_at(tmp_path, when) for when in ("before", 20, 40, 60, "after")] == [
        0.2,
        0.6,
        0.5,
        None,
        None,
    ]
    assert held_out.is_kept(tmp_path, 40) and not held_out.is_kept(tmp_path, 60)
    held_out.keep_figures(tmp_path, "after", 60, {held_out.SCORE: 0.7})
    assert held_out.best_step(tmp_path) == 60


def test_a_lost_evaluation_between_steps_does_not_prevent_the_comparison(tmp_path) -> None:
    held_out.keep_absence(tmp_path, 20, "no judge")
    assert held_out.absence(tmp_path) is None
