"""One log for each process of a run: libraries write there, and the user's screen gets only what `show` prints.

`redirect` points stdout and stderr of the process at a file, for C++ libraries and child processes too. The kernel
appends, so nothing is lost when the process is killed, and no other process has to copy the output.
"""

import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

Printer = Callable[[str], None]

_is_redirected = False
_screen: TextIO | None = None
_printer: Printer | None = None


def redirect(log: Path, heading: str) -> None:
    """Send this process's stdout and stderr to the end of `log` from now on; `screen` keeps the former stderr.

    Args:
        log: the file; its folder is created if absent.
        heading: a line that marks this start of the process in the log.

    Raises:
        OSError: the file cannot be written.
    """
    global _screen, _is_redirected  # noqa: PLW0603  the streams belong to the process
    log.parent.mkdir(parents=True, exist_ok=True)
    opened = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    file = fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, 3)  # With stderr closed, `opened` can be 2 itself.
    os.close(opened)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, AttributeError):
            stream.flush()
    if not _is_redirected:
        with suppress(OSError):  # If stderr is closed, there is no screen.
            _screen = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="replace")
    os.write(file, f"{heading}\n".encode())
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="replace", closefd=False)
    _is_redirected = True


def is_redirected() -> bool:
    """Whether `redirect` was called in this process."""
    return _is_redirected


def screen() -> TextIO | None:
    """Return the stream that the user sees: stderr as it was before `redirect`; None if it was closed."""
    return _screen if _is_redirected else sys.stderr


def show(text: str) -> None:
    """Print lines for the user: on the screen, and in the log of a redirected process."""
    if _printer is not None:
        _printer(text)
    else:
        _write(screen(), text)
    if _is_redirected:
        _write(sys.stderr, text)


@contextmanager
def shown_by(printer: Printer) -> Iterator[None]:
    """Let `printer` put the lines of `show` on the screen, for example above a live display."""
    global _printer  # noqa: PLW0603
    before, _printer = _printer, printer
    try:
        yield
    finally:
        _printer = before


def _write(stream: TextIO | None, text: str) -> None:
    # A closed or broken stream must not end a run; a closed one is None. RuntimeError: a signal's handler writes while
    # the code that it interrupted does.
    if stream is not None:
        with suppress(OSError, ValueError, RuntimeError):
            stream.write(f"{text}\n")
            stream.flush()
