"""The queries of docs/queries.md on a recorded run: each answer is compared with a count in Python.

`data/recorded-run` was recorded by `warpsmith-trainer grpo`: three steps of three problems with three samples, at most
three turns, and three held-out problems before and after, by a tiny policy that had learned some of the problems.
"""

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from warpsmith.records.reader import RunReader
from warpsmith.records.summary import summarize

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "queries.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (\d+)\. .*?```sql\n(.*?)```", PAGE, flags=re.MULTILINE | re.DOTALL))

Row = dict[str, Any]


@pytest.fixture(scope="module")
def reader() -> RunReader:
    return RunReader(ROOT / "tests" / "data" / "recorded-run")


@pytest.fixture(scope="module")
def turns(reader) -> list[Row]:
    """The valid turns, ordered by trajectory and turn."""
    rows = [row for row in reader.table("turns", latest=True).to_pylist() if row["valid"]]
    return sorted(rows, key=lambda row: (row["trajectory"], row["turn"]))


@pytest.fixture(scope="module")
def answer(reader) -> Callable[[int], list[Row]]:
    """Runs the query of a question as the page says."""
    duckdb = pytest.importorskip("duckdb")
    database = duckdb.connect()
    for table in ("turns", "credits", "steps"):
        database.register(table, reader.table(table, latest=True))
    return lambda number: database.sql(SECTIONS[str(number)]).to_arrow_table().to_pylist()


def episodes(turns: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in turns:
        found[row["trajectory"]].append(row)
    return found


def solved(rows: list[Row]) -> bool:
    return any(row["verdict"]["correct"] for row in rows)


def close(rows: list[Row]) -> list[Any]:
    return [{k: pytest.approx(v) if isinstance(v, float) else v for k, v in row.items()} for row in rows]


def test_the_run_has_something_to_ask_about(turns):
    """Queries over a run in which nothing happens would agree with anything."""
    train = [row for row in turns if row["role"] == "train"]
    assert {row["rollout_step"] for row in train} == {1, 2, 3}
    assert len({row["level"] for row in turns}) == 2
    assert len({row["verdict"]["error_category"] for row in train}) > 2
    assert {solved(rows) for rows in episodes(train).values()} == {True, False}
    assert max(row["turn"] for row in train) == 2
    assert list(SECTIONS) == [str(number) for number in range(1, 11)]


def test_1_held_out_problems_solved(answer, turns):
    found = defaultdict(list)
    for rows in episodes(row for row in turns if row["role"] == "held_out").values():
        found[rows[0]["after_step"], rows[0]["level"]].append(solved(rows))
    assert answer(1) == close(
        [
            {"after_step": step, "level": level, "trajectories": len(own), "solved": fmean(own)}
            for (step, level), own in sorted(found.items())
        ]
    )
    assert {row["after_step"] for row in answer(1)} == {0, 3}


def test_2_reward_and_return_by_step(answer, turns, reader):
    found = answer(2)
    metrics = [dict(row["metrics"]) for row in reader.table("steps", latest=True).to_pylist()]
    assert [row["rollout_step"] for row in found] == [1, 2, 3]
    for row, own in zip(found, metrics, strict=True):
        assert row["reward_mean"] == pytest.approx(own["reward_mean"])
        assert row["aggregated_return_mean"] == pytest.approx(own["aggregated_return_mean"])
    assert [row["trajectories"] for row in found] == [9, 9, 9]
    assert {row["stage"] for row in found} == {None}, "the run had no curriculum"


def test_3_turn_at_which_problems_are_solved(answer, reader):
    for role in ("train", "held_out"):
        progress = summarize(reader, role=role).progress
        expected = {turn.turn_number: turn.first_solved for turn in progress if turn.first_solved}
        expected |= {None: 1 - progress[-1].solved_by} if progress[-1].solved_by < 1 else {}
        found = {row["solved_at"]: row["share"] for row in answer(3) if row["role"] == role}
        assert found == {key: pytest.approx(share) for key, share in expected.items()}


def test_4_reward_after_feedback(answer, turns):
    found = defaultdict(list)
    for rows in episodes(turns).values():
        for turn, (row, following) in enumerate(itertools.pairwise(rows)):
            found[turn + 1, solved(rows[: turn + 1])].append(following["reward"] - row["reward"])
    assert answer(4) == close(
        [
            {"turn_number": turn, "solved_before": before, "trajectories": len(own), "improvement_mean": fmean(own)}
            for (turn, before), own in sorted(found.items())
        ]
    )


def test_5_problems_never_solved(answer, turns):
    by_problem = defaultdict(list)
    for row in turns:
        if row["role"] == "train":
            by_problem[row["problem"]].append(row)
    expected = {
        problem: (len({row["trajectory"] for row in rows}), max(row["reward"] for row in rows))
        for problem, rows in by_problem.items()
        if not solved(rows)
    }
    found = answer(5)
    assert {row["problem"]: (row["trajectories"], row["best_reward"]) for row in found} == expected
    assert 0 < len(found) < len(by_problem)


def test_6_errors_by_step(answer, turns):
    expected = Counter(
        (row["rollout_step"], row["verdict"]["error_category"])
        for row in turns
        if row["rollout_step"] is not None and not row["verdict"]["correct"]
    )
    assert {(row["rollout_step"], row["error_category"]): row["turns"] for row in answer(6)} == expected


def test_7_errors_that_are_repaired(answer, turns):
    found = defaultdict(list)
    for rows in episodes(turns).values():
        for row, following in itertools.pairwise(rows):
            if not row["verdict"]["correct"]:
                found[row["verdict"]["error_category"]].append(following["verdict"]["correct"])
    expected = {category: (len(own), pytest.approx(fmean(own))) for category, own in found.items()}
    assert {row["error_category"]: (row["turns"], row["repaired"]) for row in answer(7)} == expected


def test_8_groups_without_signal(answer, turns):
    returns, problems = defaultdict(list), {}
    for row in turns:
        if row["turn"] == 0 and row["rollout_step"] is not None:
            returns[row["rollout_step"], row["group"]].append(row["return"])
            problems[row["rollout_step"], row["group"]] = row["problem"]
    found = answer(8)
    assert [row["groups"] for row in found] == [3, 3, 3]
    for row in found:
        flat = sorted(
            problems[key] for key, own in returns.items() if key[0] == row["rollout_step"] and len(set(own)) == 1
        )
        assert (row["without_spread"], row["problems"] or []) == (pytest.approx(len(flat) / 3), flat)


def test_9_turns_that_moved_the_policy(answer, turns, reader):
    correct = {(row["trajectory"], row["turn"]): row["verdict"]["correct"] for row in turns}
    found = defaultdict(list)
    for row in reader.table("credits", latest=True).to_pylist():
        found[row["step"], correct[row["trajectory"], row["turn"]]].append(row)
    assert answer(9) == close(
        [
            {
                "step": step,
                "correct": is_correct,
                "turns": len(own),
                "advantage_mean": fmean(row["advantage"] for row in own),
                "advantage_abs_mean": fmean(abs(row["advantage"]) for row in own),
                "staleness_max": max(row["staleness"] for row in own),
            }
            for (step, is_correct), own in sorted(found.items())
        ]
    )


def test_10_time_of_a_step(answer, turns, reader):
    steps = {row["step"]: row for row in reader.table("steps", latest=True).to_pylist()}
    found = answer(10)
    assert [row["step"] for row in found] == [1, 2, 3]
    for row in found:
        own = [turn for turn in turns if turn["rollout_step"] == row["step"]]
        assert row["generate_s"] == pytest.approx(sum(turn["generate_s"] for turn in own))
        assert row["completion_length_mean"] == pytest.approx(fmean(len(turn["completion_ids"]) for turn in own))
        assert row["train_s"] == steps[row["step"]]["train_s"]


def test_the_query_in_pyarrow_says_the_same(answer, reader, capsys):
    code = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[-1]
    exec(compile(code, "docs/queries.md", "exec"), {"reader": reader})
    printed = eval(capsys.readouterr().out)
    for row, expected in zip(printed, answer(2), strict=True):
        assert row["reward_mean"] == pytest.approx(expected["reward_mean"])
        assert row["return_mean"] == pytest.approx(expected["aggregated_return_mean"])
