"""JSON lines about turns and trajectories as they end, for tools that follow a run without Arrow.

A line is the log that `export` writes for the same turn or trajectory, with `kind` in front: `turn` or `trajectory`.
"""

import datetime as dt
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from warpsmith.records.export import ended_at, finite, stamp, trajectory_log, turn_log

LIVE_FILE: Final = "live.jsonl"
MOST_CHARACTERS: Final = 16_384
"""Longer texts are truncated, so that the cost of a line is bounded; the records have them in full."""
_BLOCK: Final = 1 << 16


class LiveJson:
    """Appends a line for each turn and each trajectory; a context manager. Lines are complete as soon as they exist.

    If the operating system refuses a line, this is reported once and no more lines are written: the records have all.

    Args:
        path: the file; an unfinished line that a killed run left at its end is removed.
        on_failure: called with the reason when writing has failed.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: Path, on_failure: Callable[[str], None]) -> None:
        self._on_failure = on_failure
        self._file: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        _drop_unfinished_line(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def turn(self, row: Mapping[str, Any]) -> None:
        """Write a turn that has ended. `row` is its row of `turns`; its `return` need not be known."""
        self._write("turn", row["started_at"], turn_log(dict(row)))

    def trajectory(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write a trajectory that has ended, from the rows of its turns in order."""
        turns = [dict(row) for row in rows]
        self._write("trajectory", ended_at(turns[-1]), trajectory_log(turns))

    def close(self) -> None:
        """Close the file; later lines are dropped."""
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def _write(self, kind: str, moment: dt.datetime, log: dict[str, Any]) -> None:
        if self._file is None:
            return
        entry = _cut(finite({"kind": kind, "timestamp": stamp(moment), **log}))
        line = json.dumps(entry, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace") + b"\n"
        try:
            written = os.write(self._file, line)
            if written < len(line):
                os.ftruncate(self._file, os.fstat(self._file).st_size - written)
                raise OSError(f"only {written} of {len(line)} bytes could be written")
        except OSError as error:
            self.close()
            self._on_failure(f"Live JSON stops: {error.strerror or error}. The records have all turns.")


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        more = len(value) - MOST_CHARACTERS
        return value if more <= 0 else f"{value[:MOST_CHARACTERS]} [{more} more characters in the records]"
    if isinstance(value, dict):
        return {key: _cut(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_cut(item) for item in value]
    return value


def _drop_unfinished_line(file: int) -> None:
    end = os.lseek(file, 0, os.SEEK_END)
    while end:
        start = max(0, end - _BLOCK)
        place = os.pread(file, end - start, start).rfind(b"\n")
        if place >= 0:
            os.ftruncate(file, start + place + 1)
            return
        end = start
    os.ftruncate(file, 0)
