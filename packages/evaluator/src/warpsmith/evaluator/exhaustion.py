"""Which errors say that a machine, or a limit around a process, had no more of something: those that may pass."""

import errno
from typing import Final

from warpsmith.evaluator import _native

EXHAUSTED: Final = frozenset(
    {
        errno.EAGAIN,
        errno.ENOMEM,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOSPC,
        errno.EDQUOT,
        errno.ENOBUFS,
        errno.EUSERS,
        errno.ETOOMANYREFS,
        errno.EIO,
        errno.ETIMEDOUT,
        errno.ECHILD,
    }
)
"""No processes, memory, descriptors, room on a disk, or time; ECHILD: a child was killed before it began."""
_NO_THREAD: Final = "can't start new thread"


def is_exhaustion(error: BaseException) -> bool:
    """Whether an error, or one that it came from, says that something ran out."""
    seen: BaseException | None = error
    for _ in range(16):
        if seen is None:
            return False
        if _says_so(seen):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _says_so(error: BaseException) -> bool:
    match error:
        case MemoryError():
            return True
        case _native.NativeError(layer="device"):
            return False  # its number is the driver's, not the system's
        case OSError(errno=number) | _native.NativeError(errno=number):
            return number in EXHAUSTED
        case RuntimeError():
            return _NO_THREAD in str(error)
        case _:
            return False
