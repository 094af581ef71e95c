"""The lease of a device among the judges of one user: each process shares it, or one has it to itself.

Locks of files, which the kernel releases when a process ends however it ends. All are held by descriptions of open
files, so that each of a process's roles below is one holder.
"""

import fcntl
import os
import stat
import tempfile
from pathlib import Path
from typing import Final

from warpsmith.evaluator.errors import JudgeUnavailableError

PREFIX: Final = "warpsmith-device-"


class DeviceLock:
    """What one judge holds of the device that it shares with others. The names of its files are those of its parts.

    - `wanted`: exclusive, by a process that wants the device alone, until it is done; others start nothing then.
    - `starts`: shared while workers start; who wants the device alone waits for them first, and others share meanwhile.
    - `turn`: exclusive from then on; others begin no use.
    - `use`: shared by each process that uses the device, exclusive by one that is alone.

    Every `try_` method returns at once, since the caller holds a lock that those need who end a use.

    Args:
        folder: where the files lie; by default the machine's for temporary files.
        uuid: of the device.

    Raises:
        JudgeUnavailableError: the files cannot be opened, or another user's are there.
    """

    def __init__(self, uuid: str, folder: Path | None = None) -> None:
        base = (folder or Path(tempfile.gettempdir())) / f"{PREFIX}{os.geteuid()}-{uuid}"
        self._held = {
            (name, role): _opened(base.with_name(f"{base.name}-{name}"))
            for name in ("wanted", "starts", "turn", "use")
            for role in ("shared", "alone")
        }

    def try_start(self, *, joins: bool) -> bool:
        """Begin to start workers, unless another process wants the device alone; `joins`: even then."""
        return (joins or self._is_free("wanted")) and self._try_shared("starts")

    def end_starts(self) -> None:
        """End all starts of this process."""
        self._release("starts", "shared")

    def await_no_wanter(self) -> None:
        """Wait until no other process wants the device alone."""
        self._pass("wanted")

    def try_share(self) -> bool:
        """Begin to share the device, once more if it is shared, unless another process is about to have it alone."""
        return self._is_free("turn") and self._try_shared("use")

    def end_sharing(self) -> None:
        """End every use of this process."""
        self._release("use", "shared")

    def is_awaited(self) -> bool:
        """Whether another process waits for the uses of this one to end."""
        return not self._is_free("turn")

    def await_turn(self) -> None:
        """Wait until no other process has the device alone, or is about to."""
        self._pass("turn")

    def block_starts(self) -> None:
        """Wait until no other process wants the device alone and none starts workers; none begins to from then on."""
        for name in ("wanted", "starts"):
            fcntl.flock(self._held[name, "alone"], fcntl.LOCK_EX)

    def block_uses(self) -> None:
        """Let no other process begin to use the device."""
        fcntl.flock(self._held["turn", "alone"], fcntl.LOCK_EX)

    def await_uses(self) -> None:
        """Wait until no process uses the device; this one must not."""
        fcntl.flock(self._held["use", "alone"], fcntl.LOCK_EX)

    def end_alone(self) -> None:
        """Release what `block_starts`, `block_uses` and `await_uses` took, as far as they came."""
        for name in ("use", "turn", "starts", "wanted"):
            self._release(name, "alone")

    def _try_shared(self, name: str) -> bool:
        try:
            fcntl.flock(self._held[name, "shared"], fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _is_free(self, name: str) -> bool:
        free = self._try_shared(name)
        self._release(name, "shared")
        return free

    def _pass(self, name: str) -> None:
        fcntl.flock(self._held[name, "shared"], fcntl.LOCK_SH)
        self._release(name, "shared")

    def _release(self, name: str, role: str) -> None:
        fcntl.flock(self._held[name, role], fcntl.LOCK_UN)


def _opened(path: Path) -> int:
    """Open a file to lock, and create it where it is missing; a file of another user is refused."""
    remedy = f"Remove {path}, or set TMPDIR to a folder that only you can write."
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise JudgeUnavailableError(f"The device's lock {path} cannot be opened: {error.strerror}.", remedy) from error
    found = os.fstat(fd)
    if found.st_uid != os.geteuid() or not stat.S_ISREG(found.st_mode):
        os.close(fd)
        raise JudgeUnavailableError(f"The device's lock {path} is not a file of this user.", remedy)
    return fd
