"""The log of each rank: stderr of the rank and its children, on the terminal and in a file of the run."""

import os
import shutil
import socket
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TextIO, TypeVar

import psutil  # type: ignore[import-untyped,unused-ignore]

from warpsmith.records.errors import WarpsmithError
from warpsmith.records.last_words import quote_into
from warpsmith.records.ownership.generations import LOCK

E = TypeVar("E", bound=WarpsmithError)

_FOLDER: Final = "WARPSMITH_RANK_LOGS"
_SCREEN: Final = "WARPSMITH_RANK_SCREEN"
STARTED: Final = "=== rank "
"""Start of the line that each start of a rank adds to its log."""


def logs_of(run_dir: Path) -> Path:
    """Return the folder of the ranks' logs."""
    return run_dir / "logs"


def log_of(folder: Path, rank: int) -> Path:
    """Return the log of one rank."""
    return folder / f"rank-{rank}.log"


def keep(run_dir: Path) -> None:
    """Copy this rank's stderr to its log as well, from now until the process ends.

    A separate process copies it, so that nothing is lost if the rank is killed. Progress is drawn on `screen()`, which
    is not copied to the log.
    """
    folder = logs_of(run_dir).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    rank, log = os.environ["RANK"], log_of(folder, int(os.environ["RANK"]))
    with log.open("a", encoding="utf-8") as file:
        file.write(f"{STARTED}{rank}, pid {os.getpid()} on {_host()}, {datetime.now(UTC):%F %T} UTC\n")
    os.environ[_FOLDER] = str(folder)
    os.environ[_SCREEN] = f"{os.getpid()}:{_copy_stderr(log)}"


def discard_if_alone(run_dir: Path) -> None:
    """Remove the ranks' logs if the run wrote nothing else: its ranks rejected the run, and have printed why."""
    logs = logs_of(run_dir)
    if logs.is_dir() and {path.name for path in run_dir.iterdir()} <= {logs.name, LOCK}:
        shutil.rmtree(logs)


def screen() -> TextIO:
    """Return the stream for progress: the terminal, or whatever stderr was before it was copied to a log."""
    pid, _, fd = os.environ.get(_SCREEN, "").partition(":")
    return os.fdopen(int(fd), "w", closefd=False) if pid == str(os.getpid()) else sys.stderr


def _copy_stderr(log: Path) -> int:
    """Copy stderr to `log`; return a descriptor of the former stderr."""
    sys.stderr.flush()
    before = os.dup(2)
    # -i and its own session: signals that end the rank must not end the process that logs why.
    copy = subprocess.Popen(
        ["tee", "-i", "-a", str(log)],
        stdin=subprocess.PIPE, stdout=before, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    if copy.stdin is None:
        raise AssertionError("a pipe was asked for")
    os.dup2(copy.stdin.fileno(), 2)
    copy.stdin.close()
    return before


def quote_dead_ranks(error: E) -> E:
    """Attach the last lines of the logs of this run's dead ranks on this machine.

    Does nothing if the ranks have no logs, or if all are alive: then a rank of another machine died.
    """
    folder = os.environ.get(_FOLDER)
    if folder is None:
        return error
    mine = log_of(Path(folder), int(os.environ["RANK"]))
    dead = [log for log in sorted(Path(folder).glob("rank-*.log")) if log != mine and _is_dead(log)]
    return quote_into(error, dead, since=STARTED)


def _is_dead(log: Path) -> bool:
    """Whether the last process that wrote a log was on this machine and has ended."""
    text = log.read_text(encoding="utf-8", errors="replace")
    _, _, started = text.rpartition(STARTED)
    _, _, origin = started.partition("\n")[0].partition(", pid ")
    pid, _, host = origin.partition(",")[0].partition(" on ")
    if host != _host() or not pid.isdecimal():
        return False
    try:
        return bool(psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _host() -> str:
    return socket.gethostname()
