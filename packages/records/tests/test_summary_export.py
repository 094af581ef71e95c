import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_rows import MORNING, trajectory_rows, turn_row, verdict

from warpsmith.records import RunReader, RunWriter, export_json, summarize
from warpsmith.records.errors import UsageError
from warpsmith.records.parts import Part
from warpsmith.records.progress import Improvement
from warpsmith.records.schema import turns_batch
from warpsmith.records.summary import parts, summarize_parts


def run_of(path, *trajectories):
    with RunWriter(path) as writer:
        for rows in trajectories:
            writer.append("turns", turns_batch(rows))
    return RunReader(path)


def test_figures_of_a_small_run_by_hand(tmp_path):
    reader = run_of(
        tmp_path,
        trajectory_rows("a", ["correct"], speedup=2.5),  # rewards 1.8
        trajectory_rows("b", ["compile_error", "incorrect", "correct"], speedup=1.0),  # 0, 0.1, 0.3
        trajectory_rows("c", ["incorrect", "compile_error"]),  # 0.1, 0
        trajectory_rows("d", ["incorrect", "incorrect"]),  # 0.1, 0.1
    )
    found = summarize(reader)
    assert (found.trajectories, found.turns, found.invalid_turns) == (4, 8, 0)
    assert found.turns_mean == 2.0
    assert found.aggregated_return_mean == pytest.approx((1.8 + (0 + 0.04 + 0.048) + 0.1 + 0.14) / 4)
    assert found.final_correct_rate == 0.5
    assert found.improvement_rate == pytest.approx(1 / 3)
    assert found.speedup_mean == pytest.approx((2.5 + 1.0) / 2)
    assert found.fast_p == {"0": 0.5, "1": 0.25, "1.5": 0.25, "2": 0.25}
    first, second, third = found.by_turn
    assert (first.trajectories, first.compiled_rate, first.correct_rate) == (4, 0.75, 0.25)
    assert first.reward_mean == pytest.approx((1.8 + 0 + 0.1 + 0.1) / 4)
    assert first.speedup_mean == 2.5
    assert (second.trajectories, second.compiled_rate, second.speedup_mean) == (3, pytest.approx(2 / 3), None)
    assert (third.trajectories, third.correct_rate, third.speedup_mean) == (1, 1.0, 1.0)
    assert [one.trajectory for one in found.top] == ["a", "d", "c", "b"]
    assert found.top[3].rewards == pytest.approx((0.0, 0.1, 0.3))
    assert found.top[3].correct == (False, False, True)
    assert found.top[3].speedups == (None, None, 1.0)
    assert found.top[3].improvement == pytest.approx(0.3)
    assert json.loads(json.dumps(found.to_dict()))["turns_mean"] == 2.0


def test_progress_by_turn_by_hand(tmp_path):
    reader = run_of(
        tmp_path,
        trajectory_rows("a", ["correct"]),
        trajectory_rows("b", ["compile_error", "incorrect", "correct"], speedup=1.0),  # rewards 0, 0.1, 0.3
        trajectory_rows("c", ["incorrect", "compile_error"]),  # 0.1, 0
        trajectory_rows("d", ["correct", "incorrect"]),  # 0.8, 0.1
    )
    first, second, third = summarize(reader).progress
    assert [turn.turn_number for turn in (first, second, third)] == [1, 2, 3]
    assert [turn.first_solved for turn in (first, second, third)] == [0.5, 0.0, 0.25]
    assert [turn.solved_by for turn in (first, second, third)] == [0.5, 0.5, 0.75]
    assert first.improvement == Improvement(3, pytest.approx((0.1 - 0.1 - 0.7) / 3))
    assert first.improvement_solved == Improvement(1, pytest.approx(-0.7))
    assert first.improvement_unsolved == Improvement(2, pytest.approx(0.0))
    assert second.improvement == second.improvement_unsolved == Improvement(1, pytest.approx(0.2))
    assert third.improvement == second.improvement_solved == Improvement(0, None)


def test_a_lost_turn_is_no_step_of_the_progress(tmp_path):
    lost = {"valid": False, "invalid_reason": "no worker", "verdict": None, "reward": None, "return": None}
    rows = trajectory_rows("a", ["incorrect", "incorrect", "correct"])
    rows[1] |= lost
    progress = summarize(run_of(tmp_path, rows)).progress
    assert [turn.improvement.trajectories for turn in progress] == [0, 0, 0]
    assert [turn.solved_by for turn in progress] == [0.0, 0.0, 1.0]


def test_parts_are_split_by_the_values_of_a_column(tmp_path):
    reader = run_of(
        tmp_path,
        trajectory_rows("a", ["correct"], role="held_out", after_step=0, level=2),
        trajectory_rows("b", ["correct"], role="held_out", after_step=0, level=None),
        trajectory_rows("c", ["correct"], role="held_out", after_step=4, level=1),
        trajectory_rows("d", ["correct"], level=1),
    )
    labels = [part.label for part in parts(reader, by="level")]
    assert labels == [
        "held_out before training, level 2", "held_out before training, no level", "held_out after 4 steps, level 1",
        "train, level 1",
    ]  # fmt: skip
    assert [part.label for part in parts(reader, by="role")] == ["held_out", "train"]
    assert parts(reader, role="train", by="level") == [Part("train", None, "level", 1)]
    with pytest.raises(UsageError, match="cannot be grouped by `kernel`"):
        parts(reader, by="kernel")


def test_the_agents_of_a_run_have_figures_of_their_own(tmp_path):
    rows = trajectory_rows("a", ["incorrect", "correct", "correct"])
    for row, agent in zip(rows, ["generator", "generator", "optimizer"], strict=True):
        row["agent"] = agent
    reader = run_of(tmp_path, rows, trajectory_rows("b", ["incorrect"], agent="generator"))
    found = summarize_parts(reader, by="agent")
    assert {name: (part.trajectories, part.turns) for name, part in found.items()} == {
        "train, agent generator": (2, 3),
        "train, agent optimizer": (1, 1),
    }
    assert found["train, agent generator"].final_correct_rate == 0.5
    # The return of an optimizer's first turn is not the trajectory's.
    assert found["train, agent optimizer"].aggregated_return_mean is None


def test_invalid_turns_are_counted_and_left_out(tmp_path):
    lost = {"valid": False, "invalid_reason": "no worker", "verdict": None, "reward": None, "return": None}
    good = trajectory_rows("a", ["incorrect", "correct"])
    first_lost = trajectory_rows("b", ["incorrect", "correct"])
    first_lost[0] |= lost
    reader = run_of(tmp_path, good, first_lost, [turn_row("c", **lost)])
    found = summarize(reader)
    assert (found.trajectories, found.turns, found.invalid_turns) == (2, 3, 2)
    assert found.aggregated_return_mean == pytest.approx(good[0]["return"])
    assert found.improvement_rate == 1.0
    assert found.by_turn[0].trajectories == 1


def test_a_run_that_is_not_timed_has_no_speedup(tmp_path):
    reader = run_of(tmp_path, [turn_row("a", verdict=verdict("correct", None), reward=0.3)])
    found = summarize(reader)
    assert (found.speedup_mean, found.fast_p, found.final_correct_rate) == (None, {}, 1.0)


def test_a_run_without_turns_has_no_rates(tmp_path):
    reader = run_of(tmp_path, trajectory_rows("a", ["correct"]))
    found = summarize(reader, role="nobody")
    assert (found.trajectories, found.turns_mean, found.final_correct_rate, found.top) == (0, None, None, ())


def test_roles_are_summarized_apart(run_dir):
    reader = RunReader(run_dir)
    assert parts(reader) == [Part("held_out"), Part("train")]
    assert summarize(reader, role="train").final_correct_rate == 1.0
    assert summarize(reader, role="held_out").final_correct_rate == 0.0
    assert summarize(reader).trajectories == 12


def test_evaluations_before_and_after_training_are_distinguished(tmp_path):
    reader = run_of(
        tmp_path,
        trajectory_rows("before", ["incorrect", "incorrect"], role="held_out", after_step=0),
        trajectory_rows("after", ["incorrect", "correct"], role="held_out", after_step=8),
        trajectory_rows("one", ["correct"], role="train", after_step=0),
        trajectory_rows("two", ["correct"], role="train", after_step=1),
        trajectory_rows("unknown", ["correct"], role="probe", after_step=1),
        trajectory_rows("unknown too", ["correct"], role="probe"),
    )
    found = parts(reader)
    assert [part.label for part in found] == ["held_out before training", "held_out after 8 steps", "probe", "train"]
    rates = [summarize(reader, role=part.role, after_step=part.after_step).final_correct_rate for part in found]
    assert rates == [0.0, 1.0, 1.0, 1.0]
    assert summarize(reader, role="probe").trajectories == summarize(reader, role="train").trajectories == 2


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.lists(st.sampled_from(["correct", "incorrect", "compile_error"]), min_size=1, max_size=4),
        min_size=1,
        max_size=6,
    ),
    st.randoms(),
)
def test_rates_agree_with_counting_whatever_the_order_of_rows(tmp_path_factory, episodes, chance):
    rows = [row for index, statuses in enumerate(episodes) for row in trajectory_rows(f"t{index}", statuses)]
    chance.shuffle(rows)
    found = summarize(run_of(tmp_path_factory.mktemp("run"), rows))
    assert found.turns_mean == pytest.approx(sum(map(len, episodes)) / len(episodes))
    assert found.final_correct_rate == pytest.approx(sum(e[-1] == "correct" for e in episodes) / len(episodes))
    for figures in found.by_turn:
        turn = figures.turn_number - 1
        there = [e[turn] for e in episodes if len(e) > turn]
        assert figures.trajectories == len(there)
        assert figures.compiled_rate == pytest.approx(sum(s != "compile_error" for s in there) / len(there))
    assert [progress.turn_number for progress in found.progress] == [figures.turn_number for figures in found.by_turn]
    for turn, progress in enumerate(found.progress):
        first = sum("correct" in e and e.index("correct") == turn for e in episodes)
        assert progress.first_solved == pytest.approx(first / len(episodes))
        assert progress.solved_by == pytest.approx(sum("correct" in e[: turn + 1] for e in episodes) / len(episodes))
        both = [e for e in episodes if len(e) > turn + 1]
        solved = ["correct" in e[: turn + 1] for e in both]
        gains = [SCORES[e[turn + 1]] - SCORES[e[turn]] for e in both]
        for kept, improvement in (
            ((True, False), progress.improvement),
            ((True,), progress.improvement_solved),
            ((False,), progress.improvement_unsolved),
        ):
            own = [gain for gain, was_solved in zip(gains, solved, strict=True) if was_solved in kept]
            assert improvement.trajectories == len(own)
            assert improvement.mean == (pytest.approx(sum(own) / len(own)) if own else None)


SCORES = {"correct": 0.8, "incorrect": 0.1, "compile_error": 0.0}


TURN_NAME = re.compile(r"turn_kernelbench_\d_t\d_\d{8}_\d{6}_\d{6}\.json")
TRAJECTORY_NAME = re.compile(r"trajectory_kernelbench_\d_\d{8}_\d{6}_\d{6}\.json")


def test_export_writes_one_file_a_turn_and_one_a_trajectory(run_dir, tmp_path):
    done = export_json(run_dir, tmp_path / "logs")
    files = sorted(path.name for path in done.out.iterdir())
    assert (done.turns, done.trajectories) == (24, 12)
    assert sum(TURN_NAME.fullmatch(name) is not None for name in files) == 24
    assert sum(TRAJECTORY_NAME.fullmatch(name) is not None for name in files) == 12


def test_the_logs_have_the_documented_fields(tmp_path):
    rows = trajectory_rows("a", ["incorrect", "correct"], speedup=2.5)
    run_of(tmp_path / "run", rows)
    out = export_json(tmp_path / "run", tmp_path / "logs").out
    turn = json.loads((out / "turn_kernelbench_1_t0_20250807_084801_411804.json").read_text())
    assert list(turn) == ["timestamp", "instance_id", "turn_idx", "turn_data"]
    assert turn["timestamp"] == "20250807_084801_411804"
    assert (turn["instance_id"], turn["turn_idx"]) == ("kernelbench_1", 0)
    data = turn["turn_data"]
    assert list(data) == ["prompt", "response", "kernel_code", "eval_result", "reward", "extra_info"]
    assert data["prompt"] == rows[0]["messages"]
    assert data["eval_result"] == {
        "compiled": True,
        "correctness": False,
        "runtime": None,
        "speedup": None,
        "error_message": "it failed with incorrect",
    }
    assert data["extra_info"]["verdict"]["max_abs_error"] is None

    (path,) = out.glob("trajectory_*")
    log = json.loads(path.read_text())
    assert path.name == f"trajectory_kernelbench_1_{log['timestamp']}.json"
    assert list(log) == [
        *("timestamp", "instance_id", "final_reward", "num_turns", "turn_rewards", "aggregated_return"),
        *("history", "messages", "execution_details", "extra_info"),
    ]
    assert log["turn_rewards"] == pytest.approx([0.1, 1.8])
    assert log["aggregated_return"] == log["final_reward"] == pytest.approx(0.1 + 0.4 * 1.8)
    assert log["messages"][-1] == {"role": "assistant", "content": rows[1]["completion"]}
    assert [turn["turn_idx"] for turn in log["history"]] == [0, 1]
    assert log["execution_details"] == {
        "final_compiled": True,
        "final_correctness": True,
        "final_runtime": 0.8,
        "final_speedup": 2.5,
    }


def test_logs_of_one_microsecond_get_names_of_their_own_and_say_so(tmp_path):
    run_of(tmp_path / "run", [turn_row(f"t{index}") for index in range(5)])
    out = export_json(tmp_path / "run", tmp_path / "logs").out
    stamps = [json.loads(path.read_text())["timestamp"] for path in out.glob("turn_*")]
    assert sorted(stamps) == [f"20250807_084801_{411804 + index}" for index in range(5)]
    assert MORNING.microsecond == 411804


def test_a_problem_name_with_a_slash_stays_in_the_directory(tmp_path):
    run_of(tmp_path / "run", [turn_row(problem="../level1/19_ReLU.py")])
    out = export_json(tmp_path / "run", tmp_path / "logs").out
    (path,) = out.glob("turn_*")
    assert path.name.startswith("turn_.._level1_19_ReLU.py_t0_")
    assert json.loads(path.read_text())["instance_id"] == "../level1/19_ReLU.py"
