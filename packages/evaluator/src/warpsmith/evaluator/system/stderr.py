"""What the evaluator's processes say on stderr, which may be closed, broken or full: nothing ever waits for it."""

import os
import select
import sys
import time
import traceback
from typing import Final

PATIENCE_S: Final = 0.2
"""How long a reader that does not read is waited for, all in all; what is left of a text by then is dropped."""
STANDARD: Final = (0, 1, 2)
_PART: Final = select.PIPE_BUF
_CLOSED: Final = select.POLLERR | select.POLLHUP | select.POLLNVAL


def tell(text: str, patience_s: float = PATIENCE_S) -> bool:
    """Write `text` to stderr, as far as somebody reads it. Never raises and never blocks.

    Returns:
        Whether all of it was written within `patience_s`.
    """
    try:
        return _write(2, text.encode("utf-8", "backslashreplace"), patience_s)
    except (OSError, ValueError):
        return False


def tell_error(error: BaseException) -> None:
    """Write the traceback of an error to stderr, as `tell` does."""
    tell("".join(traceback.format_exception(error)))


def _write(fd: int, content: bytes, patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    poller = select.poll()
    poller.register(fd, select.POLLOUT)
    while content:
        ready = poller.poll(1000 * max(deadline - time.monotonic(), 0.0))
        if not ready or ready[0][1] & _CLOSED:
            return False
        # A pipe with room for PIPE_BUF bytes takes as many without blocking.
        content = content[os.write(fd, content[:_PART]) :]
    return True


def open_standard_descriptors() -> None:
    """Open the standard descriptors that are closed on /dev/null.

    Otherwise the next socket or file gets such a number, and whatever a library writes to stderr goes there.
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
