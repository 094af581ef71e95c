"""Ends a rank's process: runs its exit handlers and skips the interpreter's teardown."""

import atexit
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

CRASHED: Final = 70
"""Exit code of a rank that ended by an unexpected exception; sysexits.h's code for internal errors."""


@contextmanager
def ends_after_exit_handlers(on_crash: Callable[[Exception], None] | None = None) -> Iterator[None]:
    """After the block, run the exit handlers and end this process with the exit code of the block.

    An unhandled exception gives the code `CRASHED`: the parent then knows that no message was printed. `on_crash` is
    called with it first.

    The interpreter's teardown takes seconds with torch and Ray loaded; if it is cut short, Triton's extension complains
    in forty lines. Handlers registered before this block do not run.
    """
    code = CRASHED

    def end() -> None:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)

    atexit.register(end)
    try:
        yield
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
        raise
    except Exception as error:
        if on_crash is not None:
            on_crash(error)
        raise
    code = 0
