"""Removes folders that foreign code filled, however deep, wide or write-protected, in slices of bounded time.

Imports only the standard library: run as a program (`python -I -S rmtree.py FOLDER...`) it starts in milliseconds and
removes whole folders, so that processes that serve others need not.
"""

import errno
import os
import select
import stat
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Final

AT_ONCE_S: Final = 0.02
"""Longest slice while other work waits, in seconds. A usual worker's folder takes a fraction of a millisecond."""
AT_MOST: Final = 100
"""Maximum folders per process: their names must fit a command line."""
YIELDING: Final = 10
KILLED_S: Final = 10.0
"""Longest time a killed process takes to exit."""
_TAKEN: Final = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR})


class _SliceEndedError(Exception):
    """The time for this slice is used up."""


def remove(folder: Path, seconds: float | None = None) -> bool:
    """Remove a folder with its content; return whether it is completely removed. Its writers must have ended.

    Follows no links. Nested directories are first moved up into `folder`, so that any depth needs only two descriptors,
    short paths and a shallow stack. Entries that vanish meanwhile are ignored.

    Args:
        folder: need not exist.
        seconds: time limit, except for the current entry; another call removes the rest.

    Raises:
        OSError: an entry cannot be removed.
    """
    ends = None if seconds is None else time.monotonic() + seconds
    try:
        _Removal(folder, ends).run()
    except _SliceEndedError:
        return False
    return True


class _Removal:
    def __init__(self, folder: Path, ends: float | None) -> None:
        self.folder = folder
        self.ends = ends
        self.moved = 0

    def run(self) -> None:
        with suppress(FileNotFoundError):
            parent = os.open(self.folder.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                self._whole(self.folder.name, parent)
            finally:
                os.close(parent)

    def _whole(self, name: str, parent: int) -> None:
        with _opened(name, parent) as root:
            self._until_empty(name, parent, root, lambda inner: self._flatten(inner, root))

    def _flatten(self, name: str, root: int) -> None:
        """Remove one directory of `root`, moving its own directories up into `root`."""
        with _opened(name, root) as directory:
            self._until_empty(name, root, directory, lambda inner: self._move_up(inner, directory, root))

    def _until_empty(self, name: str, parent: int, directory: int, with_directory: Callable[[str], None]) -> None:
        """Remove a directory. Listing a directory while it changes may skip entries, so this repeats."""
        while True:
            while self._each(directory, with_directory):
                pass
            try:
                return os.rmdir(name, dir_fd=parent)
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise

    def _each(self, directory: int, with_directory: Callable[[str], None]) -> bool:
        """Unlink the files of a directory and call `with_directory` for its directories; return if it had entries."""
        found = False
        for entry in _listed(directory):
            found = True
            self._check_time()
            with suppress(FileNotFoundError):
                if entry.is_dir(follow_symlinks=False):
                    with_directory(entry.name)
                else:
                    os.unlink(entry.name, dir_fd=directory)
        return found

    def _move_up(self, name: str, parent: int, root: int) -> None:
        """Move a directory into `root` under a free name. Only a writable directory can be moved."""
        _unlock(name, parent)
        while True:
            self._check_time()
            self.moved += 1
            try:
                return os.rename(name, f"moved-{self.moved}", src_dir_fd=parent, dst_dir_fd=root)
            except OSError as error:
                if error.errno not in _TAKEN:
                    raise

    def _check_time(self) -> None:
        if self.ends is not None and time.monotonic() >= self.ends:
            raise _SliceEndedError


def _listed(directory: int) -> Iterator["os.DirEntry[str]"]:
    with os.scandir(directory) as entries:
        yield from entries


@contextmanager
def _opened(name: str, parent: int) -> Iterator[int]:
    _unlock(name, parent)
    opened = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        yield opened
    finally:
        os.close(opened)


def _unlock(name: str, parent: int) -> None:
    """Give the owner access to a directory: the worker may have removed it."""
    mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(name, stat.S_IRWXU, dir_fd=parent)


def start_removing(paths: Iterable[Path], keep_open: Sequence[int] = ()) -> "subprocess.Popen[bytes]":
    """Start a low-priority process that removes whole folders.

    Args:
        paths: at most AT_MOST folders.
        keep_open: descriptors that it keeps until it ends, such as a lock on the folder.
    """
    command = [sys.executable, "-I", "-S", __file__, *map(str, paths)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=keep_open)


class Backlog:
    """Removes folders without delaying other work: a time slice for each, then one process at a time for the rest."""

    def __init__(self) -> None:
        self._left: deque[Path] = deque()
        self._process: subprocess.Popen[bytes] | None = None

    def remove(self, folder: Path) -> None:
        """Remove a folder, or as much as a slice of time allows; never raises because of its content."""
        if not remove_at_once(folder):
            self._left.append(folder)

    def begin(self) -> int | None:
        """Start a process for the rest; return a pidfd to watch, or None if none is needed or one runs."""
        if self._process is not None or not self._left:
            return None
        some = list(islice(self._left, AT_MOST))
        try:
            self._process = start_removing(some)
            watched = os.pidfd_open(self._process.pid)
        except OSError as error:
            # No process is available now; the next worker that ends triggers another attempt.
            _report(f"Files of workers cannot be removed yet: {error}.\n")
            self.end()
            return None
        for _ in some:
            self._left.popleft()
        return watched

    def end(self) -> None:
        """Reap the process; kill it if it still runs."""
        if self._process is not None:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(KILLED_S)
        self._process = None


def remove_at_once(folder: Path) -> bool:
    """Remove a folder while other work waits; False if that takes longer than a slice, or fails.

    The process that retries it reports the obstacle.
    """
    try:
        return remove(folder, AT_ONCE_S)
    except OSError:
        return False


def remove_or_report(folder: Path) -> bool:
    """Remove a folder; if something in it cannot be removed, report it on stderr and return False."""
    try:
        return remove(folder)
    except OSError as error:
        _report(f"A worker's files cannot be removed: {error}. Remove {folder} by hand.\n")
        return False


def _report(text: str) -> None:
    """Write to stderr as far as it is read; when run as a program this module cannot import `system.stderr`."""
    with suppress(OSError, ValueError):
        if select.select([], [2], [], 0)[1]:
            os.write(2, text.encode("utf-8", "backslashreplace")[: select.PIPE_BUF])


def main(names: list[str]) -> int:
    """Remove whole folders, continue after a failure, and return the exit code."""
    os.nice(YIELDING)
    failed = [name for name in names if not remove_or_report(Path(name))]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
