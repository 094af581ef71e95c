"""Which errors say that a machine, or a limit around a process, had no more of something: those that may pass."""

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
"""No processes, descriptors or time: compiling a kernel uses none up. ECHILD: a child died before it began."""
OF_INPUT: Final = frozenset({errno.ENOMEM, errno.ENOSPC, errno.EDQUOT})
"""No memory, or no room on a disk: the machine's, or what a large input has used up."""
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
"""Share of what a process may have, from which on the process has used it up itself."""
_NO_THREAD: Final = "can't start new thread"


def is_exhaustion(error: BaseException) -> bool:
    """Whether an error, or one that it came from, says that something ran out."""
    return _exhausted(error) is not None


def is_machines(error: BaseException) -> bool:
    """Whether something ran out that no input exhausts, however large it is."""
    return _exhausted(error) in OF_MACHINE


def used_much_memory() -> bool:
    """Whether this process, or one that it started, has held half of what a process may."""
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return limit != resource.RLIM_INFINITY and peak << 10 >= USED_SHARE * limit


def with_advice(error: BaseException) -> str:
    """Return the message of an error, with the limit to raise where something ran out."""
    number = _exhausted(error)
    advice = ADVICE.get(number) if number is not None else None
    # A sandbox layer's own remedy is about a layer that is forbidden, as ENOSPC from clone3 says it is.
    if advice is None or (isinstance(error, _native.NativeError) and error.errno == errno.ENOSPC):
        return str(error)
    text = error.message if isinstance(error, _native.NativeError) else str(error) or type(error).__name__
    return f"{text.rstrip('.')}. {advice}"


def _exhausted(error: BaseException) -> int | None:
    """Return the errno of what ran out; None where nothing did."""
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
