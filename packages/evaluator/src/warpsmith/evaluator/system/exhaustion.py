"""Recognizes errors that say that a resource of the machine, or a process limit, ran out: they may be temporary."""

import errno
import resource
from typing import Final

from warpsmith.evaluator import _native

OF_MACHINE: Final = frozenset(
    {
        errno.EAGAIN,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOBUFS,
        errno.EUSERS,
        errno.ETOOMANYREFS,
        errno.EIO,
        errno.ETIMEDOUT,
        errno.ECHILD,
    }
)
"""No processes, descriptors or time, which compiling a kernel cannot exhaust. ECHILD: a child died before it began."""
OF_INPUT: Final = frozenset({errno.ENOMEM, errno.ENOSPC, errno.EDQUOT})
"""No memory or disk space: the machine's, or used up by a large input."""
EXHAUSTED: Final = OF_MACHINE | OF_INPUT
ADVICE: Final = {
    errno.EAGAIN: "Allow more processes and threads (`ulimit -u`, a container's pids limit), or memory (`ulimit -v`).",
    errno.EMFILE: "Allow more open files: `ulimit -n`.",
    errno.ENFILE: "Allow more open files on this machine: sysctl fs.file-max.",
    errno.ENOMEM: "Give it more memory: `ulimit -v`, `ulimit -d`, the container's memory limit, fewer slots.",
    errno.ENOSPC: "Make room in the temporary folder (TMPDIR).",
    errno.EDQUOT: "Make room in the temporary folder (TMPDIR): a quota is used up.",
}
"""Which limit to raise."""
USED_SHARE: Final = 0.5
"""Share of its limit above which a process has exhausted it itself."""
_NO_THREAD: Final = "can't start new thread"


def is_exhaustion(error: BaseException) -> bool:
    """Whether an error, or one of its causes, says that a resource ran out."""
    return _exhausted(error) is not None


def is_machines(error: BaseException) -> bool:
    """Whether a resource ran out that no input can exhaust, however large."""
    return _exhausted(error) in OF_MACHINE


def used_much_memory() -> bool:
    """Whether the peak memory of this process, or of a child, is at least half of its limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return limit != resource.RLIM_INFINITY and peak << 10 >= USED_SHARE * limit


def with_advice(error: BaseException) -> str:
    """Return the message of an error, and the limit to raise if a resource ran out."""
    number = _exhausted(error)
    advice = ADVICE.get(number) if number is not None else None
    # ENOSPC of a sandbox layer (clone3) means that the layer is forbidden, and the error has its own remedy.
    if advice is None or (isinstance(error, _native.NativeError) and error.errno == errno.ENOSPC):
        return str(error)
    text = error.message if isinstance(error, _native.NativeError) else str(error) or type(error).__name__
    return f"{text.rstrip('.')}. {advice}"


def _exhausted(error: BaseException) -> int | None:
    """Return the errno of the resource that ran out; None if none did."""
    seen: BaseException | None = error
    for _ in range(16):
        if seen is None:
            return None
        if (number := _number_of(seen)) in EXHAUSTED:
            return number
        seen = seen.__cause__ or seen.__context__
    return None


def _number_of(error: BaseException) -> int | None:
    match error:
        case MemoryError():
            return errno.ENOMEM
        case _native.NativeError(layer="device"):
            return None  # its number is the driver's, not the system's
        case OSError(errno=number) | _native.NativeError(errno=number):
            return number
        case RuntimeError() if _NO_THREAD in str(error):
            return errno.EAGAIN
        case _:
            return None
