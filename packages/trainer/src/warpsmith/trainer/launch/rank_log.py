"""The log of each rank: stdout and stderr of the rank, its libraries and its children, in a file of the run."""

import logging
import os
import shutil
import socket
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

import psutil  # type: ignore[import-untyped,unused-ignore]

from warpsmith.records import process_log
from warpsmith.records.errors import WarpsmithError
from warpsmith.records.last_words import quote_into
from warpsmith.records.ownership.generations import LOCK

E = TypeVar("E", bound=WarpsmithError)

_FOLDER: Final = "WARPSMITH_RANK_LOGS"
STARTED: Final = "=== rank "
"""Start of the line that each start of a rank adds to its log."""


def logs_of(run_dir: Path) -> Path:
    """Return the folder of the ranks' logs."""
    return run_dir / "logs"


def log_of(folder: Path, rank: int) -> Path:
    """Return the log of one rank."""
    return folder / f"rank-{rank}.log"


def keep(run_dir: Path) -> None:
    """Send this rank's stdout and stderr to its log until the process ends; see `process_log`.

    Warnings of Warpsmith's own packages are shown on the screen too.
    """
    folder = logs_of(run_dir).absolute()
    rank = os.environ["RANK"]
    started = f"{STARTED}{rank}, pid {os.getpid()} on {_host()}, {datetime.now(UTC):%F %T} UTC"
    process_log.redirect(log_of(folder, int(rank)), started)
    os.environ[_FOLDER] = str(folder)
    ours = logging.getLogger("warpsmith")
    ours.addHandler(_Shown(logging.WARNING))
    ours.propagate = False


class _Shown(logging.Handler):
    """Shows log records on the screen, and in the rank's log."""

    def emit(self, record: logging.LogRecord) -> None:
        process_log.show(f"{record.levelname.lower()}: {record.getMessage()}")


def discard_if_alone(run_dir: Path) -> None:
    """Remove the ranks' logs if the run wrote nothing else: its ranks rejected the run, and printed why.

    If a sampler or evaluator actor has a log, all stay: the printed error may name it.
    """
    logs = logs_of(run_dir)
    alone = logs.is_dir() and {path.name for path in run_dir.iterdir()} <= {logs.name, LOCK}
    if alone and set(logs.iterdir()) <= set(logs.glob("rank-*.log")):
        shutil.rmtree(logs)


def report_crash(error: Exception) -> None:
    """Show an unhandled exception in a line, and where its traceback is."""
    folder = os.environ.get(_FOLDER)
    if folder is not None and process_log.is_redirected():
        rank = os.environ["RANK"]
        what = "".join(traceback.format_exception_only(error)).strip()
        process_log.show(f"error: rank {rank} ended by an unhandled exception: {what}")
        process_log.show(f"Its traceback is in {log_of(Path(folder), int(rank))}.")


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
