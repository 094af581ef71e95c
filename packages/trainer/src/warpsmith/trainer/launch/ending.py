"""Ends a rank's process: runs its exit handlers and skips the interpreter's teardown."""

import atexit
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

CRASHED: Final = 70
"""The exit code of a rank that an exception ended which is none of ours, as sysexits.h has it for internal errors."""


@contextmanager
def ends_after_exit_handlers() -> Iterator[None]:
    """End this process, once it comes to that, with the code that the block gives it, after its exit handlers.

    An exception that nothing handles gives it the code `CRASHED`: what started it then knows that no message was told.

    The interpreter would look for seconds through what torch and Ray have loaded, and where it is kept from that,
    Triton's extension complains in forty lines. Handlers that were registered before this block do not run.
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
    code = 0
