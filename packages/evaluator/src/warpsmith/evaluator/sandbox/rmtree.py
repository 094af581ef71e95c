"""Removing folders that foreign code filled, however deep, wide or closed to their owner, in slices of bounded time.

Imports the standard library alone: run as a program (`python -I -S removal.py FOLDER...`) it starts in milliseconds and
removes folders whole, so that whoever has others to serve need not.
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
"""How long a folder is removed where others wait. An ordinary worker's takes a fraction of a millisecond."""
AT_MOST: Final = 100
"""How many folders one process is given: their names must fit a command line."""
YIELDING: Final = 10
KILLED_S: Final = 10.0
"""What a killed process takes at most to be gone."""
_TAKEN: Final = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR})


class _SliceEndedError(Exception):
    """The time for this slice is used up."""


def remove(folder: Path, seconds: float | None = None) -> bool:
    """Remove a folder with all that is in it, whose writers have ended; return whether nothing of it is left.

    No link is followed. Directories inside directories are first moved up into `folder`, so that no depth needs more
    than two descriptors, a longer path or a deeper stack. What vanishes meanwhile is gone.

    Args:
        folder: need not exist.
        seconds: how long to remove at most, but for the one entry under way; what is left is removed by another call.

    Raises:
        OSError: something in it cannot be removed.
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
        """Remove one directory of `root`, its own directories moved beside it."""
        with _opened(name, root) as directory:
            self._until_empty(name, root, directory, lambda inner: self._move_up(inner, directory, root))

    def _until_empty(self, name: str, parent: int, directory: int, with_directory: Callable[[str], None]) -> None:
        """Remove a directory. One that changes while it is listed may leave something out, hence once more."""
        while True:
            while self._each(directory, with_directory):
                pass
            try:
                return os.rmdir(name, dir_fd=parent)
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise

    def _each(self, directory: int, with_directory: Callable[[str], None]) -> bool:
        """Unlink what a directory lists and do as told with its directories; return whether there was anything."""
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
        """Move a directory into `root` under a name that is free there. Only one that is open can be moved."""
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
    """Open a directory to its owner, who may have closed it to himself."""
    mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(name, stat.S_IRWXU, dir_fd=parent)


def start_removing(paths: Iterable[Path], keep_open: Sequence[int] = ()) -> "subprocess.Popen[bytes]":
    """Start a process that removes folders whole and lets others have the processor first.

    Args:
        paths: AT_MOST folders.
        keep_open: descriptors that it holds until it ends, such as a lock on the folder.
    """
    command = [sys.executable, "-I", "-S", __file__, *map(str, paths)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=keep_open)


class Backlog:
    """Removes folders where others wait: each for a slice of time, then what is left by one process at a time."""

    def __init__(self) -> None:
        self._left: deque[Path] = deque()
        self._process: subprocess.Popen[bytes] | None = None

    def remove(self, folder: Path) -> None:
        """Remove a folder, or as much of it as a slice of time allows; never raises for what is in it."""
        if not remove_at_once(folder):
            self._left.append(folder)

    def begin(self) -> int | None:
        """Start a process for what is left; return a pidfd to watch, or None where none is needed or one runs."""
        if self._process is not None or not self._left:
            return None
        some = list(islice(self._left, AT_MOST))
        try:
            self._process = start_removing(some)
            watched = os.pidfd_open(self._process.pid)
        except OSError as error:
            # No process to be had just now: whoever ends next leads here again.
            _tell(f"What workers left cannot be removed yet: {error}.\n")
            self.end()
            return None
        for _ in some:
            self._left.popleft()
        return watched

    def end(self) -> None:
        """Reap the process; one that still runs is killed."""
        if self._process is not None:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(KILLED_S)
        self._process = None


def remove_at_once(folder: Path) -> bool:
    """Remove a folder where others wait; False where that takes longer than a slice, or fails.

    What is in the way is said by the process that tries it again.
    """
    try:
        return remove(folder, AT_ONCE_S)
    except OSError:
        return False


def remove_or_say(folder: Path) -> bool:
    """Remove a folder whole; where something in it cannot be removed, say so on stderr and return False."""
    try:
        return remove(folder)
    except OSError as error:
        _tell(f"What a worker left cannot be removed: {error}. Remove {folder} by hand.\n")
        return False


def _tell(text: str) -> None:
    """Write to stderr as far as there is somebody to read it; as a program this knows no `diagnostics`."""
    with suppress(OSError, ValueError):
        if select.select([], [2], [], 0)[1]:
            os.write(2, text.encode("utf-8", "backslashreplace")[: select.PIPE_BUF])


def main(names: list[str]) -> int:
    """Remove folders whole, and go on with the next after a failure; return the exit code."""
    os.nice(YIELDING)
    failed = [name for name in names if not remove_or_say(Path(name))]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
