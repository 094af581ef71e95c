"""Output of the evaluator's processes to stderr, which may be closed, broken or full: writing never blocks for long."""

import os
import select
import sys
import time
import traceback
from typing import Final

PATIENCE_S: Final = 0.2
"""Total time to wait for a reader that does not read; the rest of the text is then dropped."""
STANDARD: Final = (0, 1, 2)
_PART: Final = select.PIPE_BUF
_CLOSED: Final = select.POLLERR | select.POLLHUP | select.POLLNVAL


def report(text: str, patience_s: float = PATIENCE_S) -> bool:
    """Write `text` to stderr as far as it is read. Never raises and never blocks longer than `patience_s`.

    Returns:
        Whether all of it was written.
    """
    try:
        return _write(2, text.encode("utf-8", "backslashreplace"), patience_s)
    except (OSError, ValueError):
        return False


def report_error(error: BaseException) -> None:
    """Write the traceback of an error to stderr, as `report` does."""
    report("".join(traceback.format_exception(error)))


def _write(fd: int, content: bytes, patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    poller = select.poll()
    poller.register(fd, select.POLLOUT)
    while content:
        ready = poller.poll(1000 * max(deadline - time.monotonic(), 0.0))
        if not ready or ready[0][1] & _CLOSED:
            return False
        # A pipe that polls as writable takes PIPE_BUF bytes without blocking.
        content = content[os.write(fd, content[:_PART]) :]
    return True


def open_standard_descriptors() -> None:
    """Open closed standard descriptors on /dev/null.

    Otherwise the next socket or file would get such a number and receive what libraries write to stderr.
    """
    for fd in STANDARD:
        try:
            os.fstat(fd)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), fd)
    if sys.stderr is None:
        sys.stderr = open(2, "w", errors="backslashreplace", closefd=False)  # noqa: SIM115  (open as long as the process)
    if sys.stdout is None:
        sys.stdout = open(1, "w", errors="backslashreplace", closefd=False)  # noqa: SIM115
