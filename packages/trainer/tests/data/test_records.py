"""Turns of real records as chats: filters, ranks, repetitions, several runs."""

from pathlib import Path
from typing import Any

import pytest

from warpsmith.records.reader import NoRecordsError
from warpsmith.records.writer import RunWriter
from warpsmith.trainer.config.sources import RecordsSource
from warpsmith.trainer.data.records import count_turns, read_records
from warpsmith.trainer.data.sample import Refusal, Sample
from warpsmith.trainer.errors import DataError


@pytest.fixture
def record(tmp_path: Path, turns_table: Any) -> Any:
    """Writes a run of turns, each a change to a valid row, and returns its directory."""

    def make(*changes: dict[str, Any], name: str = "run") -> Path:
        with RunWriter(tmp_path / name) as writer:
            for number, change in enumerate(changes):
                own = {"trajectory": f"g0/{number}", "kernel": f"k{number}", "completion": f"answer {number}"}
                writer.append("turns", turns_table([{**own, **change}]))
        return tmp_path / name

    return make


def judged(reward: float = 1.0, speedup: float | None = None, status: str = "correct", **more: Any) -> dict[str, Any]:
    verdict = {"status": status, "compiled": True, "correct": status == "correct", "speedup": speedup, "flags": None}
    return {"verdict": {**verdict, **more}, "reward": reward, "return": reward}


def taken(*runs: Path, **keys: Any) -> tuple[list[str], list[str]]:
    """Return the answers that are taken, and why the others are not."""
    found = list(read_records(RecordsSource(path=runs, **keys)))
    answers = [one.messages[-1]["content"] for one in found if isinstance(one, Sample)]
    return answers, [one.reason for one in found if isinstance(one, Refusal)]


def test_a_turn_that_passed_is_its_prompt_and_its_completion(record: Any) -> None:
    run = record(judged() | {"messages": [{"role": "user", "content": "q"}], "problem": "p7"})
    (sample,) = read_records(RecordsSource(path=(run,)))
    assert isinstance(sample, Sample)
    assert sample.messages == [{"role": "user", "content": "q"}, {"role": "assistant", "content": "answer 0"}]
    assert sample.problem == "p7"
    assert sample.place == f"turn 1 of g0/0 in {run}"


def test_a_role_that_no_run_has_is_refused_with_the_roles_that_exist(record: Any) -> None:
    run, other = record(judged()), record(judged() | {"role": "held_out"}, name="other")
    assert taken(run, other, roles=("train", "held_out"))[0] == ["answer 0"]
    with pytest.raises(DataError, match=r"has the role 'heldout'\. Roles of these runs: held_out, train\."):
        taken(run, other, roles=("train", "heldout"))


@pytest.mark.parametrize(
    ("change", "keys", "reason"),
    [
        (judged(status="incorrect"), {}, "verdict is not correct"),
        (judged() | {"role": "held_out"}, {}, "another role than train"),
        ({"valid": False, "invalid_reason": "lost", "reward": None, "return": None, "verdict": None}, {}, "invalid"),
        (judged() | {"finish_reason": "length"}, {}, "cut off at the length limit"),
        (judged() | {"num_turns": 2}, {"turns": "final"}, "not the last turn"),
        (judged(0.3), {"min_score": 0.5}, "reward below 0.5"),
        (judged(1.0, 1.1), {"min_speedup": 1.2}, "speedup below 1.2"),
        (judged(), {"min_speedup": 1.2}, "not timed"),
        (judged(flags=["torch_fallback"]), {"without_flags": ["torch_fallback"]}, "flagged"),
        (judged() | {"completion": " "}, {}, "empty answer"),
    ],
)
def test_what_is_left_out_says_why_and_what_is_near_passes(
    record: Any, change: dict[str, Any], keys: dict[str, Any], reason: str
) -> None:
    passing = judged(0.6, 1.3) | {"turn": 1, "num_turns": 2}
    answers, reasons = taken(record(change, passing), **keys)
    assert answers == ["answer 1"]
    assert len(reasons) == 1
    assert reason in reasons[0]


def test_the_best_of_each_problem_by_reward_then_speedup(record: Any) -> None:
    run = record(
        judged(1.0, 1.0) | {"problem": "a"}, judged(2.0, 1.0) | {"problem": "a"}, judged(1.0, 3.0) | {"problem": "a"},
        judged(0.5) | {"problem": "b"},
    )  # fmt: skip
    answers, reasons = taken(run, best=2)
    assert answers == ["answer 1", "answer 2", "answer 3"]
    assert reasons == ["not among the best 2 of its problem"]


def test_a_kernel_that_its_problem_had_counts_once_over_all_runs(record: Any) -> None:
    one = record(judged(1.0) | {"kernel": "same"}, judged(2.0) | {"kernel": "same\n"}, name="one")
    two = record(judged(1.5) | {"kernel": "same"}, judged(1.0) | {"kernel": "same", "problem": "other"}, name="two")
    answers, reasons = taken(one, two, best=1)
    assert answers == ["answer 1", "answer 1"]
    assert reasons == ["repeated: its problem already has this kernel"] * 2
    assert len(taken(one, two, deduplicate=False)[0]) == 4
    assert count_turns(RecordsSource(path=(one, two))) == 4


def test_a_turn_that_a_resumed_run_recorded_again_counts_once(record: Any, turns_table: Any) -> None:
    run = record(judged())
    with RunWriter(run) as writer:
        writer.append("turns", turns_table([judged() | {"trajectory": "g0/0", "completion": "again"}]))
    assert taken(run)[0] == ["again"]


def test_a_directory_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoRecordsError):
        taken(tmp_path)


def trajectory(name: str, *statuses: str, problem: str = "p") -> list[dict[str, Any]]:
    """Return the turns of a trajectory; the kernels of all trajectories are different."""
    return [
        judged(float(status == "correct"), status=status)
        | {"trajectory": name, "turn": turn, "num_turns": len(statuses), "problem": problem}
        | {"kernel": f"{name} {turn}", "completion": f"{name}{turn}"}
        for turn, status in enumerate(statuses)
    ]


@pytest.mark.parametrize(
    ("select", "keys", "expected"),
    [
        ("all", {}, ["a1", "a2", "b0", "b1", "c2", "d1"]),
        ("best", {}, ["a1", "d1"]),
        ("best", {"best": 2}, ["a1", "a2", "d1"]),
        ("first_right", {}, ["a1", "b0", "c2", "d1"]),
        ("repairs", {}, ["a1", "c2"]),
        ("repairs", {"best": 1}, ["a1"]),
    ],
)
def test_turns_are_selected_within_problems_and_trajectories(
    record: Any, select: str, keys: dict[str, Any], expected: list[str]
) -> None:
    """An evaluation that was lost (`invalid`) is no failure that the next turn repairs."""
    run = record(
        *trajectory("a", "incorrect", "correct", "correct"),
        *trajectory("b", "correct", "correct"),
        *trajectory("c", "incorrect", "compile_error", "correct"),
        *trajectory("d", "invalid", "correct", problem="q"),
    )
    assert sorted(taken(run, select=select, **keys)[0]) == sorted(expected)


def test_trajectories_of_two_runs_are_not_confused(record: Any) -> None:
    one = record(*trajectory("a", "incorrect", "incorrect"))
    other = record(*trajectory("a", "correct", "correct"), name="other")
    assert taken(one, other, select="repairs")[0] == []
    assert taken(one, other, select="first_right")[0] == ["a0"]
