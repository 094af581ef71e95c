"""Real processes whose output goes to a log: what the user's screen gets, and what the log gets."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, subprocess, sys
from pathlib import Path
from warpsmith.records import commands, process_log
from warpsmith.records.errors import UsageError

process_log.redirect(Path(sys.argv[1]), "=== started")
print("of python's stdout", flush=True)
os.write(2, b"of a library in C\\n")
subprocess.run(["echo", "of a child"], check=True)
process_log.show("for the user")
def fail():
    raise UsageError("Nothing works.", "Fix it.")
if sys.argv[2] == "error":
    commands.run(fail)
if sys.argv[2] == "kill":
    print("the last line", flush=True)
    os.kill(os.getpid(), 9)
"""
ALL = "=== started\nof python's stdout\nof a library in C\nof a child\nfor the user\n"


def run(log: Path, ending: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(log), ending], capture_output=True, text=True, timeout=60, check=False
    )


def test_the_screen_gets_what_is_shown_and_the_log_everything(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "one.log"
    ended = run(log, "well")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "for the user\n")
    assert log.read_text() == ALL


def test_an_error_is_on_the_screen_and_in_the_log(tmp_path: Path) -> None:
    ended = run(tmp_path / "one.log", "error")
    assert ended.returncode == 2
    assert ended.stderr == "for the user\nerror: Nothing works. Fix it.\n"
    assert (tmp_path / "one.log").read_text() == f"{ALL}error: Nothing works. Fix it.\n"


def test_nothing_is_lost_by_a_kill_and_a_second_start_appends(tmp_path: Path) -> None:
    assert run(tmp_path / "one.log", "kill").returncode == -signal.SIGKILL
    run(tmp_path / "one.log", "well")
    assert (tmp_path / "one.log").read_text() == f"{ALL}the last line\n{ALL}"


@pytest.mark.parametrize("closing", ["2>&-", "2>&1 | true"])
def test_a_screen_that_is_gone_does_not_end_the_process(tmp_path: Path, closing: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = f"sleep 0.2; {sys.executable} {program} {tmp_path / 'one.log'} error {closing}; :"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stderr == ""
    assert (tmp_path / "one.log").read_text().endswith("error: Nothing works. Fix it.\n")


def test_a_log_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file")
    ended = run(tmp_path / "logs" / "one.log", "well")
    assert ended.returncode == 1
    assert "NotADirectoryError" in ended.stderr or "FileExistsError" in ended.stderr
    assert os.listdir(tmp_path) == ["logs"]
