"""The last lines of a dead process's log, attached to the error that reports its death.

They are notes of the exception (PEP 678): tracebacks and commands print them, and they survive pickling.
"""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from warpsmith.records.errors import WarpsmithError

E = TypeVar("E", bound=WarpsmithError)

LINES: Final = 12
_WIDTH: Final = 400
_READ_BYTES: Final = 64 << 10
VMSTAT: Final = Path("/proc/vmstat")
_ESCAPES: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


def quote_into(error: E, logs: Iterable[Path], *, skip: re.Pattern[str] | None = None, since: str = "") -> E:
    """Attach the last lines of each log to an error and return it.

    Args:
        error: the error that reports the death.
        logs: log files; a missing or empty one is named.
        skip: lines to leave out, matched at their start.
        since: quote only what follows the last line that starts with this, if there is one.
    """
    for log in logs:
        error.add_note(quoted(log, skip=skip, since=since))
    return error


def quoted(log: Path, *, skip: re.Pattern[str] | None = None, since: str = "") -> str:
    """Return the last lines of a log, indented, under its path; see `quote_into`."""
    try:
        lines = _last_lines(log, skip, since)
    except OSError as error:
        return f"Its log {log} cannot be read: {error.strerror}."
    if not lines:
        return f"Its log {log} is empty."
    return "\n".join([f"The last lines of {log}:", *(f"    {line}" for line in lines)])


def tail_of(log: Path) -> str:
    """Return the end of a log, 64 KiB at most.

    Raises:
        OSError: it cannot be read.
    """
    with log.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _READ_BYTES))
        return file.read().decode("utf-8", errors="replace")


def retyped(kind: type[E], error: WarpsmithError) -> E:
    """Return an error of another type with the same message, remedy and notes."""
    return with_notes_of(kind(error.message, error.remedy), error)


def with_notes_of(error: E, cause: BaseException) -> E:
    """Copy the notes of `cause` to `error` and return `error`."""
    for note in notes_of(cause):
        error.add_note(note)
    return error


def full_text(error: WarpsmithError) -> str:
    """Return message and notes, for a log."""
    return "\n".join([error.message, *notes_of(error)])


def notes_of(error: BaseException) -> Sequence[str]:
    """Return the notes of an error."""
    return tuple(getattr(error, "__notes__", ()))


def oom_kills() -> int:
    """Return how many processes the kernel's out-of-memory killer has killed on this machine since boot.

    The difference before and after a death shows whether memory may be the cause. 0 if the kernel does not report it.
    """
    try:
        counters = VMSTAT.read_text(encoding="ascii")
    except OSError:
        return 0
    found = re.search(r"^oom_kill (\d+)$", counters, re.MULTILINE)
    return int(found[1]) if found else 0


def memory_note(before: int) -> str:
    """Return a sentence if the out-of-memory killer has killed processes since `oom_kills()` returned `before`."""
    ended = oom_kills() - before
    if ended <= 0:
        return ""
    processes = "a process" if ended == 1 else f"{ended} processes"
    return f"Meanwhile the kernel's out-of-memory killer killed {processes} on this machine."


def _last_lines(log: Path, skip: re.Pattern[str] | None, since: str) -> list[str]:
    found: list[str] = []
    for line in tail_of(log).split("\n"):
        if since and line.startswith(since):
            found.clear()
        elif skip is None or not skip.match(line):
            found.append(_printable(line))
    return [line for line in found if line.strip()][-LINES:]


def _printable(line: str) -> str:
    """Return a line as a terminal shows it: the last state of a progress bar, no control characters."""
    plain = _ESCAPES.sub("", line).rstrip("\r").rpartition("\r")[2]
    return "".join(sign if sign.isprintable() else " " for sign in plain)[:_WIDTH].rstrip()
