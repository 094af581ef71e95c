"""The lease of a device among one user's judges: processes share it, or one has it to itself.

File locks, which the kernel releases however a process ends. All are held by open file descriptions, so that each of a
process's roles below is a separate holder.
"""

import fcntl
import os
import stat
import tempfile
import time
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from warpsmith.evaluator.errors import JudgeUnavailableError

PREFIX: Final = "warpsmith-device-"
PARTS: Final = ("wanted", "starts", "turn", "use")
TOUCHED_S: Final = 3600
"""How often the files of an active judge are touched: cleaners of temporary folders remove files a few days old."""


class DeviceLock:
    """One judge's locks on the device that it shares with others. Its files are named after its parts.

    - `wanted`: exclusive, by a process that wants the device alone, until it is done; others start nothing then.
    - `starts`: shared while workers start; a process that wants the device alone waits for them first, and others share
      it meanwhile.
    - `turn`: exclusive from then on; others begin no use.
    - `use`: shared by each process that uses the device, exclusive for one that has it alone.

    Every `try_` method returns at once, since the caller holds a lock that threads ending a use need.

    A file that was removed, or replaced by another judge's, is reopened before this one begins a use of its own or
    wants the device alone: otherwise each would have a lock of its own. What is held at that time stays as it is.

    Args:
        folder: where the files lie; by default the machine's for temporary files.
        uuid: of the device.

    Raises:
        JudgeUnavailableError: the files cannot be opened, or belong to another user; from every method that takes a
            lock also: this one is closed.
    """

    def __init__(self, uuid: str, folder: Path | None = None) -> None:
        base = (folder or Path(tempfile.gettempdir())) / f"{PREFIX}{os.geteuid()}-{uuid}"
        self._paths = {name: base.with_name(f"{base.name}-{name}") for name in PARTS}
        self._held: dict[tuple[str, str], int] = {}
        self._shares: set[str] = set()
        self._touched = time.monotonic()
        self._end = weakref.finalize(self, _close, self._held)
        self._end.atexit = False  # The kernel closes them then.
        try:
            for name, path in self._paths.items():
                for role in ("shared", "alone"):
                    self._held[name, role] = _opened(path)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the files, which releases what is held; a later release is no error."""
        self._end()

    def try_start(self, *, joins: bool) -> bool:
        """Begin starting workers, unless another process wants the device alone; `joins`: even then."""
        self._renew_shared("wanted", "starts")
        return (joins or self._is_free("wanted")) and self._keep_shared("starts")

    def end_starts(self) -> None:
        """End all starts of this process."""
        self._end_shared("starts")

    def await_no_wanter(self) -> None:
        """Wait until no other process wants the device alone."""
        self._pass("wanted")

    def try_share(self) -> bool:
        """Begin to share the device, or share it once more, unless another process is about to have it alone."""
        self._renew_shared("turn", "use")
        return self._is_free("turn") and self._keep_shared("use")

    def end_sharing(self) -> None:
        """End every use of this process."""
        self._end_shared("use")

    def is_awaited(self) -> bool:
        """Whether another process waits for the uses of this one to end."""
        return not self._is_free("turn")

    def await_turn(self) -> None:
        """Wait until no other process has the device alone, or is about to."""
        self._pass("turn")

    def block_starts(self) -> None:
        """Wait until no other process wants the device alone or is starting workers; none starts from then on."""
        self._touch()
        self._renew((name, "alone") for name in PARTS)
        for name in ("wanted", "starts"):
            self._take(name, "alone", fcntl.LOCK_EX)

    def block_uses(self) -> None:
        """Keep other processes from beginning to use the device."""
        self._take("turn", "alone", fcntl.LOCK_EX)

    def await_uses(self) -> None:
        """Wait until no process uses the device; this one must not."""
        self._take("use", "alone", fcntl.LOCK_EX)

    def end_alone(self) -> None:
        """Release what `block_starts`, `block_uses` and `await_uses` took, as far as they got."""
        for name in ("use", "turn", "starts", "wanted"):
            self._release(name, "alone")

    def _renew_shared(self, *names: str) -> None:
        self._renew((name, "shared") for name in names if name not in self._shares)

    def _renew(self, keys: Iterable[tuple[str, str]]) -> None:
        """Reopen the files that are no longer at their paths; no lock on them is held."""
        for name, role in keys:
            old, path = self._of(name, role), self._paths[name]
            try:
                if os.path.samestat(os.fstat(old), os.lstat(path)):
                    continue
            except FileNotFoundError:
                pass
            new = _opened(path)
            # Under the same number, so that a thread in the middle of a call has one or the other.
            os.dup2(new, old, inheritable=False)
            os.close(new)

    def _touch(self) -> None:
        now = time.monotonic()
        if now - self._touched < TOUCHED_S:
            return
        self._touched = now
        for name in PARTS:
            os.utime(self._of(name, "alone"))

    def _keep_shared(self, name: str) -> bool:
        taken = self._try_shared(name)
        if taken:
            self._shares.add(name)
        return taken

    def _end_shared(self, name: str) -> None:
        self._shares.discard(name)
        self._release(name, "shared")

    def _try_shared(self, name: str) -> bool:
        try:
            self._take(name, "shared", fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _is_free(self, name: str) -> bool:
        free = self._try_shared(name)
        self._release(name, "shared")
        return free

    def _pass(self, name: str) -> None:
        self._take(name, "shared", fcntl.LOCK_SH)
        self._release(name, "shared")

    def _take(self, name: str, role: str, how: int) -> None:
        fcntl.flock(self._of(name, role), how)

    def _release(self, name: str, role: str) -> None:
        if self._end.alive:
            fcntl.flock(self._held[name, role], fcntl.LOCK_UN)

    def _of(self, name: str, role: str) -> int:
        if not self._end.alive:
            raise JudgeUnavailableError("The device's lock is closed.", "Start a new judge; this one is closed.")
        return self._held[name, role]


def _close(files: dict[tuple[str, str], int]) -> None:
    for fd in files.values():
        os.close(fd)


def _opened(path: Path) -> int:
    """Open a file for locking, and create it if it is missing; another user's file is refused."""
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
