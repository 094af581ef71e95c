"""Finds which rank ended first, and how; DeepSpeed's launcher reports neither."""

import os
import select
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil  # type: ignore[import-untyped,unused-ignore]

_LOOK_EVERY_MS: Final = 200
_LOOK_FOR_RANKS_EVERY_MS: Final = 20
"""Polling interval until all ranks are known: ranks that end early must not be missed."""
_EXIT_CODE: Final = 49
"""Index of the exit code in /proc/PID/stat, counted from after the process's name."""


@dataclass(frozen=True)
class Death:
    """A rank that failed.

    Attributes:
        rank: its rank number.
        pid: its process id.
        code: its exit code, or minus the signal that ended it; None if it was gone before it could be read.
    """

    rank: int
    pid: int
    code: int | None


class Deaths:
    """Context manager that watches the ranks of a launcher from a thread.

    Args:
        launcher: the launcher's pid; the ranks are its children.
        ranks: number of ranks that it starts.
    """

    def __init__(self, launcher: int, ranks: int) -> None:
        self._launcher, self._ranks = launcher, ranks
        self._first: Death | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ranks watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def first(self) -> Death | None:
        """Return the rank that failed first, once the launcher has ended."""
        self._done.set()
        self._thread.join()
        return self._first

    def _watch(self) -> None:
        """Look for ranks until all have started, and wait for the first that fails; then stop."""
        poll, ranks, seen = select.poll(), dict[int, tuple[int, int]](), set[int]()
        try:
            while self._first is None:
                last = self._done.is_set()
                if len(seen) < self._ranks:
                    for pid, rank, fd in self._new(seen):
                        ranks[fd] = (rank, pid)
                        poll.register(fd, select.POLLIN)
                all_seen = len(seen) == self._ranks
                for fd, _ in poll.poll(_LOOK_EVERY_MS if all_seen else _LOOK_FOR_RANKS_EVERY_MS):
                    self._ended(*ranks.pop(fd), all_seen=all_seen)
                    poll.unregister(fd)
                    os.close(fd)
                if last:
                    return
        finally:
            for fd in ranks:
                os.close(fd)

    def _new(self, seen: set[int]) -> Iterator[tuple[int, int, int]]:
        """Yield pid, rank and a pidfd of newly started ranks."""
        try:
            children = psutil.Process(self._launcher).children()
        except psutil.NoSuchProcess:
            return
        for child in children:
            rank = None if child.pid in seen else _rank_of(child)
            if rank is not None:
                seen.add(child.pid)
                try:
                    yield child.pid, rank, os.pidfd_open(child.pid)
                except ProcessLookupError:
                    self._ended(rank, child.pid, all_seen=True)

    def _ended(self, rank: int, pid: int, *, all_seen: bool) -> None:
        death = Death(rank, pid, _code_of(pid))
        # The launcher ends the others when one has died, which may be one that was never seen.
        by_launcher = death.code in {None, -signal.SIGTERM} and not all_seen
        if death.code != 0 and self._first is None and not by_launcher:
            self._first = death


def _rank_of(process: psutil.Process) -> int | None:
    """Return a process's rank; None if it is not a rank, or is too young to have its environment."""
    try:
        rank = process.environ().get("RANK", "")
    except psutil.Error:
        return None
    return int(rank) if rank.isdecimal() else None


def _code_of(pid: int) -> int | None:
    """Return the exit code of a process that has ended but was not reaped by its parent."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    status = int(stat.rpartition(") ")[2].split()[_EXIT_CODE])
    return -(status & 0x7F) if status & 0x7F else status >> 8
