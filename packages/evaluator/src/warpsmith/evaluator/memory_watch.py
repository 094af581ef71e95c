"""Ends workers that hold more shared memory than they may.

CUDA needs shared memory, so a worker with a GPU can make some, and no limit of a process counts it: RLIMIT_DATA is for
private memory. A cgroup bounds it where there is one. Elsewhere the judge looks, often enough that a worker gets no
further beyond its limit than it writes between two looks.
"""

import re
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from warpsmith.evaluator.pool import Worker

EVERY_S: Final = 0.1
BLOCK_BYTES: Final = 512
"""The unit of `st_blocks`."""
_MAPPED: Final = re.compile(r"^RssShmem:\s+(\d+) kB$", flags=re.MULTILINE)
_NAMELESS: Final = "/memfd:"


def shared_bytes(pid: int, proc: Path = Path("/proc")) -> int:
    """Return the shared memory of a process: what it maps, and files without a name that it holds open.

    What is both counts twice. 0 once the process is gone.
    """
    process = proc / str(pid)
    try:
        found = _MAPPED.search((process / "status").read_text(encoding="utf-8", errors="replace"))
        held = sum(_nameless_bytes(entry) for entry in (process / "fd").iterdir())
    except OSError:
        return 0
    return held + (int(found[1]) << 10 if found else 0)


def _nameless_bytes(entry: Path) -> int:
    try:
        return entry.stat().st_blocks * BLOCK_BYTES if str(entry.readlink()).startswith(_NAMELESS) else 0
    except OSError:
        return 0  # closed meanwhile


class MemoryWatch:
    """Looks at the workers that run foreign code, from a thread of its own, until it is closed.

    Args:
        workers: returns the workers that are there.
        limit: bytes of shared memory that one of them may hold.
        every_s: seconds between two looks.
    """

    def __init__(self, workers: "Callable[[], Iterable[Worker]]", limit: int, every_s: float = EVERY_S) -> None:
        self._workers = workers
        self._limit = limit
        self._every_s = every_s
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory-watch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._closed.wait(self._every_s):
            self.look()

    def look(self) -> None:
        """End every worker in use that holds more than it may; its end is then told as one for want of memory."""
        for worker in self._workers():
            if worker.in_use and worker.alive and shared_bytes(worker.pid) > self._limit:
                worker.out_of_memory = True
                worker.kill()

    def close(self) -> None:
        """Look no more."""
        self._closed.set()
        self._thread.join()
