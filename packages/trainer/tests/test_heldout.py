"""What is kept of held-out evaluations where one of them, or the comparison, cannot be had."""

from warpsmith.trainer import heldout


def test_an_evaluation_without_a_valid_turn_leaves_its_reason(tmp_path) -> None:
    assert heldout.absence(tmp_path) is None
    assert not heldout.is_concluded(tmp_path)
    heldout.keep_figures(tmp_path, "before", 0, {"solved_rate": 0.5})
    heldout.keep_absence(tmp_path, "after", "None of the 8 turns could be judged.")
    assert heldout.absence(tmp_path) == "None of the 8 turns could be judged."
    assert heldout.is_concluded(tmp_path)
    assert heldout.is_kept(tmp_path, "before") and not heldout.is_kept(tmp_path, "after")


def test_an_evaluation_made_later_takes_the_reason_away(tmp_path) -> None:
    heldout.keep_absence(tmp_path, "after", "no judge")
    heldout.keep_figures(tmp_path, "after", 4, {"solved_rate": 0.5})
    assert heldout.absence(tmp_path) is None
    assert heldout.is_concluded(tmp_path)


def test_without_both_evaluations_there_is_no_gain() -> None:
    assert heldout.gain_of([], []) == "there is no evaluation before training"
