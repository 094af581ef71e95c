"""Shows the logs of a run, and follows them while its services run."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from warpsmith.records.last_words import tail_of
from warpsmith.trainer.errors import ServiceError
from warpsmith.trainer.launch.rank_log import logs_of
from warpsmith.trainer.services.state import services_of

_POLL_S: Final = 0.25
_READ_BYTES: Final = 1 << 20


def chosen_logs(run_dir: Path, names: Sequence[str]) -> list[Path]:
    """Return the logs of these names, or of all services.

    Raises:
        ServiceError: there is no such log; the error names those that exist.
    """
    if not names:
        return [Path(state.log) for state in services_of(run_dir)]
    found = {path.stem: path for path in sorted(logs_of(run_dir).glob("*.log"))}
    missing = [name for name in names if name not in found]
    if missing:
        raise ServiceError(
            f"{logs_of(run_dir)} has no log {missing[0]}.log.", f"Choose among {', '.join(found) or 'none yet'}."
        )
    return [found[name] for name in names]


def last_lines(log: Path, count: int) -> list[str]:
    """Return the last lines of a log."""
    try:
        return tail_of(log).splitlines()[-count:] if count else []
    except OSError:
        return []


class Follower:
    """Yields what is appended to logs, whole lines only.

    Args:
        logs: files to read from their current end on.
    """

    def __init__(self, logs: Sequence[Path]) -> None:
        self._places = {log: log.stat().st_size if log.exists() else 0 for log in logs}

    def new_lines(self) -> list[tuple[Path, str]]:
        """Return the whole lines since the last call, log by log."""
        found = []
        for log, place in self._places.items():
            try:
                with log.open("rb") as file:
                    # A log that was replaced by a shorter one is read from its beginning.
                    start = place if os.fstat(file.fileno()).st_size >= place else 0
                    file.seek(start)
                    data = file.read(_READ_BYTES)
            except OSError:
                continue
            whole = data[: data.rfind(b"\n") + 1] or (data if len(data) == _READ_BYTES else b"")
            self._places[log] = start + len(whole)
            found += [(log, line) for line in whole.decode("utf-8", "replace").splitlines()]
        return found


def follow(run_dir: Path, logs: Sequence[Path], say: Callable[[Path, str], None]) -> None:
    """Show what is appended to logs until every service of the run has ended."""
    follower = Follower(logs)
    while True:
        live = any(state.condition in ("running", "elsewhere") for state in services_of(run_dir))
        for log, line in follower.new_lines():
            say(log, line)
        if not live:
            return
        time.sleep(_POLL_S)
