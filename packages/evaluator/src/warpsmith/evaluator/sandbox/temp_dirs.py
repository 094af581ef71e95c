"""Temporary folders that are swept: the next start removes those whose owners were killed before they could."""

import errno
import fcntl
import os
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from warpsmith.evaluator.sandbox.rmtree import remove_at_once, start_removing
from warpsmith.evaluator.system import stderr

PREFIX: Final = "warpsmith-zygote-"
LOCK: Final = "owned"
PATIENCE_S: Final = 2.0


@dataclass
class Folder:
    """A temporary folder, in use as long as a process holds `lock_fd` or a copy of it."""

    path: Path
    lock_fd: int

    def remove(self) -> None:
        """Remove the folder with its content, if it still exists.

        After PATIENCE_S the removal continues in the background, in a process that holds the lock meanwhile.
        """
        try:
            if not remove_at_once(self.path):
                process = start_removing([self.path], [self.lock_fd] if self.lock_fd >= 0 else [])
                with suppress(subprocess.TimeoutExpired):
                    process.wait(PATIENCE_S)
        except OSError as error:
            stderr.report(f"{self.path} cannot be removed yet; the next start will remove it: {error}.\n")
        finally:
            if self.lock_fd >= 0:
                os.close(self.lock_fd)
            self.lock_fd = -1


def make() -> Folder:
    """Make a folder and lock it; pass the descriptor on to each process that uses it.

    Raises:
        OSError: there is no disk space, or no descriptor.
    """
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX))
        try:
            return Folder(path, _locked(path / LOCK, os.O_CREAT | os.O_EXCL))
        except (FileNotFoundError, BlockingIOError):
            continue  # a concurrent sweep took the folder
        except OSError:
            remove_at_once(path)
            raise


def sweep() -> None:
    """Remove this user's folders that no process holds any more; those that cannot be removed stay until next time."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            if path.lstat().st_uid == os.geteuid():
                _remove_unless_held(path)
        except OSError as error:
            # Gone meanwhile, not ours, or in use.
            if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EWOULDBLOCK}:
                stderr.report(f"{path} cannot be removed: {error}.\n")


def _remove_unless_held(path: Path) -> None:
    try:
        lock_fd = _locked(path / LOCK)
    except FileNotFoundError:
        _remove_if_empty(path)
    else:
        Folder(path, lock_fd).remove()


def _remove_if_empty(path: Path) -> None:
    """Remove a folder that was made but never locked. A folder with other content is not ours."""
    if not any(path.iterdir()):
        path.rmdir()


def _locked(path: Path, flags: int = 0) -> int:
    """Open and lock a file; BlockingIOError if another process holds the lock."""
    fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(fd)
        raise
    return fd
