"""What a run leaves for its report, and that the report reads it."""

import json
from pathlib import Path

from warpsmith.records.report.facts import problem_texts
from warpsmith.rollout.datasets import ProblemRow
from warpsmith.trainer.telemetry.run_facts import ProblemLog, write_start


def row(name: str, solution: str | None = None) -> ProblemRow:
    return ProblemRow(name, f"source of {name}\n", 1, "here", solution)


def test_each_problem_is_written_once_and_read_by_the_report(tmp_path: Path) -> None:
    log = ProblemLog(tmp_path)
    log.add([row("a", "solved"), row("b"), row("a", "solved")])
    log.add([row("b")])
    assert problem_texts(tmp_path) == {
        "a": {"source": "source of a\n", "solution": "solved"}, "b": {"source": "source of b\n"},
    }  # fmt: skip
    assert len((tmp_path / "problems.jsonl").read_text().splitlines()) == 2


def test_a_resumed_run_goes_on_after_a_line_that_a_kill_cut(tmp_path: Path) -> None:
    ProblemLog(tmp_path).add([row("a")])
    file = tmp_path / "problems.jsonl"
    file.write_text(file.read_text() + '{"problem": "b", "sou')
    assert set(problem_texts(tmp_path)) == {"a"}
    ProblemLog(tmp_path).add([row("a"), row("b")])
    assert set(problem_texts(tmp_path)) == {"a", "b"}
    assert len(file.read_text().splitlines()) == 2


def test_the_start_names_command_and_versions(tmp_path: Path) -> None:
    write_start(tmp_path / "run")
    found = json.loads((tmp_path / "run" / "start.json").read_text())
    assert found["command"].startswith("warpsmith-trainer")
    assert {"warpsmith-trainer", "torch", "deepspeed"} <= found["versions"].keys()
