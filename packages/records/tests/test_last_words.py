"""The last lines of logs that errors carry: printable, after the newest start, through pickle and commands."""

import pickle
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.records import commands, last_words
from warpsmith.records.errors import UsageError, WarpsmithError
from warpsmith.records.last_words import (
    LINES,
    full_text,
    memory_note,
    notes_of,
    oom_kills,
    quote_into,
    quoted,
    retyped,
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "rank-1.log"


def test_the_last_lines_stand_under_the_path(log: Path) -> None:
    log.write_text("\n".join(f"line {n}" for n in range(100)) + "\n\n")
    heading, *lines = quoted(log).splitlines()
    assert heading == f"The last lines of {log}:"
    assert lines == [f"    line {n}" for n in range(100 - LINES, 100)]


def test_a_log_that_is_missing_or_empty_is_named(log: Path) -> None:
    assert quoted(log) == f"Its log {log} cannot be read: No such file or directory."
    log.write_text("\n \n")
    assert quoted(log) == f"Its log {log} is empty."


def test_only_what_follows_the_newest_start_is_quoted_and_noise_is_skipped(log: Path) -> None:
    log.write_text("=== start\nold\n=== start\n:job_id:01\nnew\n")
    assert quoted(log, skip=re.compile(":job_id:"), since="=== ").splitlines()[1:] == ["    new"]


def test_a_progress_bar_is_quoted_in_its_last_state_without_escapes(log: Path) -> None:
    log.write_bytes(b"10 %\r20 %\r\x1b[31m30 %\x1b[0m\r\n\xff bell\x07\n")
    assert quoted(log).splitlines()[1:] == ["    30 %", "    \ufffd bell"]


@given(text=st.binary(max_size=3000))
def test_any_bytes_give_at_most_so_many_printable_lines(tmp_path_factory: pytest.TempPathFactory, text: bytes) -> None:
    log = tmp_path_factory.mktemp("logs") / "log"
    log.write_bytes(text)
    lines = quoted(log).split("\n")
    assert len(lines) <= LINES + 1
    assert all(line.isprintable() and len(line) < 500 for line in lines[1:])


def test_notes_survive_pickle_and_a_change_of_type(log: Path) -> None:
    log.write_text("Killed by a cosmic ray\n")
    error = pickle.loads(pickle.dumps(quote_into(WarpsmithError("It died.", "Start it."), [log])))
    changed = retyped(UsageError, error)
    assert type(changed) is UsageError
    assert str(changed) == "It died. Start it."
    assert full_text(changed) == f"It died.\nThe last lines of {log}:\n    Killed by a cosmic ray"
    assert notes_of(changed) == notes_of(error) == (f"The last lines of {log}:\n    Killed by a cosmic ray",)


def test_a_command_prints_the_quoted_lines_as_they_are_below_its_paragraph(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write_text("Traceback:\n    indented   words\n")

    def app() -> None:
        raise quote_into(WarpsmithError("It died.", "Start it."), [log])

    monkeypatch.setattr(sys, "argv", ["command"])
    with pytest.raises(SystemExit):
        commands.run(app)
    said = capsys.readouterr().err
    assert said == (
        f"error: It died. Start it.\n\nThe last lines of {log}:\n    Traceback:\n        indented   words\n"
    )


@pytest.mark.parametrize(
    ("counters", "expected"), [("pgfault 3\noom_kill 7\nx 1\n", 7), ("oom_killer 9\n", 0), ("", 0)]
)
def test_the_kernel_counts_what_it_killed_for_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counters: str, expected: int
) -> None:
    path = tmp_path / "vmstat"
    monkeypatch.setattr(last_words, "VMSTAT", path)
    assert oom_kills() == 0
    path.write_text(counters)
    assert oom_kills() == expected
    notes = {0: "", 1: "killed a process on", 2: "killed 2 processes on"}
    assert all(words in memory_note(expected - ended) for ended, words in notes.items())
    assert memory_note(expected) == ""


def test_this_kernel_tells() -> None:
    assert re.search(r"^oom_kill \d+$", Path("/proc/vmstat").read_text(), re.MULTILINE)
