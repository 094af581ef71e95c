import json
import os
import resource

import pytest
from made_rows import trajectory_rows, turn_row

from warpsmith.records import RunWriter, export_json
from warpsmith.records.live_json import MOST_CHARACTERS, LiveJson
from warpsmith.records.schema import turns_batch


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def failures() -> list[str]:
    return []


def test_a_line_is_what_export_writes_and_is_there_at_once(tmp_path, failures):
    rows = trajectory_rows("a", ["incorrect", "correct"], rollout_step=3, after_step=2)
    with LiveJson(tmp_path / "live.jsonl", failures.append) as live:
        for count, row in enumerate(rows, start=1):
            live.turn(row)
            assert len(lines_of(tmp_path / "live.jsonl")) == count
        live.trajectory(rows)
        found = lines_of(tmp_path / "live.jsonl")
    with RunWriter(tmp_path / "run") as writer:
        writer.append("turns", turns_batch(rows))
    logs = export_json(tmp_path / "run", tmp_path / "logs").out
    exported = [json.loads(path.read_text()) for path in sorted(logs.glob("turn_*")) + list(logs.glob("trajectory_*"))]
    assert [line.pop("kind") for line in found] == ["turn", "turn", "trajectory"]
    assert found == exported
    assert found[0]["turn_data"]["extra_info"]["rollout_step"] == 3
    assert failures == []


def test_texts_are_cut_so_that_a_line_is_bounded(tmp_path, failures):
    long = "x" * 1_000_000
    row = turn_row(completion=long, kernel=long, messages=[{"role": "user", "content": long}])
    with LiveJson(tmp_path / "live.jsonl", failures.append) as live:
        live.turn(row)
    (line,) = lines_of(tmp_path / "live.jsonl")
    more = len(long) - MOST_CHARACTERS
    for text in (
        line["turn_data"]["response"],
        line["turn_data"]["kernel_code"],
        line["turn_data"]["prompt"][0]["content"],
    ):
        assert text == f"{long[:MOST_CHARACTERS]} [{more} more characters in the records]"


@pytest.mark.parametrize("left", [b"", b'{"kind": "tu', b'{"kind": "' + b"x" * 200_000])
def test_a_resumed_run_goes_on_after_the_last_whole_line(tmp_path, failures, left):
    file = tmp_path / "live.jsonl"
    with LiveJson(file, failures.append) as live:
        live.turn(turn_row("first"))
    with file.open("ab") as stream:
        stream.write(left)
    with LiveJson(file, failures.append) as live:
        live.turn(turn_row("second"))
    assert [line["turn_data"]["extra_info"]["trajectory"] for line in lines_of(file)] == ["first", "second"]


def test_text_that_utf_8_cannot_encode_and_numbers_that_json_lacks_are_written(tmp_path, failures):
    row = turn_row(completion="lone \ud800 surrogate")
    row["verdict"]["max_abs_error"] = float("inf")
    with LiveJson(tmp_path / "live.jsonl", failures.append) as live:
        live.turn(row)
    (line,) = lines_of(tmp_path / "live.jsonl")
    assert line["turn_data"]["response"] == "lone ? surrogate"
    assert line["turn_data"]["extra_info"]["verdict"]["max_abs_error"] is None


def test_a_full_disk_is_reported_once_and_leaves_whole_lines(tmp_path, failures, monkeypatch):
    file = tmp_path / "live.jsonl"
    with LiveJson(file, failures.append) as live:
        live.turn(turn_row("first"))
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        # Room for part of a second line.
        resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(file) + 100, before[1]))
        try:
            for _ in range(3):
                live.turn(turn_row("second"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    (failure,) = failures
    assert failure.startswith("Live JSON stops: ") and failure.endswith("The records have all turns.")
    with LiveJson(file, failures.append) as live:
        live.turn(turn_row("third"))
    assert [line["turn_data"]["extra_info"]["trajectory"] for line in lines_of(file)] == ["first", "third"]
