"""Ends workers that hold more shared memory than they may.

CUDA needs shared memory, so a worker with a GPU can make some, and no limit of a process counts it: RLIMIT_DATA is for
private memory. A cgroup bounds it where there is one. Elsewhere the judge looks, and a worker gets no further beyond
its limit than it writes between two looks, with one exception: files without a name that lie in a socket are not seen.

What counts is how much an object holds, not how much of it is mapped just now. Only who may follow /proc/PID/map_files
(root, or CAP_CHECKPOINT_RESTORE) learns that; for others mapped pages are counted, which a worker can give back while
their content stays.
"""
# Objects made of paths stood high in a profile of the judge, whose timings run beside this.
# ruff: noqa: PTH115, PTH116, PTH123, PTH208

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from warpsmith.evaluator.system import stderr

if TYPE_CHECKING:
    from warpsmith.evaluator.processes.pool import Worker

EVERY_S: Final = 0.2
BLOCK_BYTES: Final = 512
"""The unit of `st_blocks`."""
_OBJECTS: Final = (b"/dev/zero", b"/memfd:")
"""What stands in a line of /proc/PID/maps that tells of such memory."""
_RESIDENT: Final = re.compile(r"^RssShmem:\s+(\d+) kB$", flags=re.MULTILINE)
_NAMELESS: Final = "/memfd:"


def shared_bytes(pid: int, proc: Path = Path("/proc")) -> int:
    """Return the bytes of a process's nameless shared memory, mapped or held open; 0 once the process is gone.

    Raises:
        PermissionError: this process may not look.
    """
    process = f"{proc}/{pid}"
    try:
        # An object that is mapped twice, or mapped and open, is one.
        return sum(dict([*_mapped(process), *_open(process)]).values())
    except (FileNotFoundError, ProcessLookupError):
        return 0


def resident_bytes(pid: int, proc: Path = Path("/proc")) -> int:
    """Return the bytes of shared memory that a process maps just now; 0 once it is gone."""
    try:
        status = (proc / str(pid) / "status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    found = _RESIDENT.search(status)
    return int(found[1]) << 10 if found else 0


def _mapped(process: str) -> Iterator[tuple[tuple[int, int], int]]:
    with open(f"{process}/maps", "rb") as file:
        maps = file.read()
    for line in {line for mark in _OBJECTS for line in lines_with(mark, maps)}:
        start, _, end = line.split(b" ", 1)[0].partition(b"-")
        yield from _object(f"{process}/map_files/{int(start, 16):x}-{int(end, 16):x}")


def lines_with(mark: bytes, text: bytes) -> Iterator[bytes]:
    """Yield the lines of a text that hold a mark, in order and without their ends."""
    at = text.find(mark)
    while at >= 0:
        end = text.find(b"\n", at)
        end = len(text) if end < 0 else end
        yield text[text.rfind(b"\n", 0, at) + 1 : end]
        at = text.find(mark, end)


def _open(process: str) -> Iterator[tuple[tuple[int, int], int]]:
    for number in os.listdir(f"{process}/fd"):
        entry = f"{process}/fd/{number}"
        try:
            nameless = os.readlink(entry).startswith(_NAMELESS)
        except FileNotFoundError:
            continue  # closed meanwhile
        if nameless:
            yield from _object(entry)


def _object(entry: str) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield what tells an object from others, and its bytes, unless it is gone."""
    try:
        found = os.stat(entry)
    except FileNotFoundError:
        return
    yield (found.st_dev, found.st_ino), found.st_blocks * BLOCK_BYTES


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
        self._held: Callable[[int], int] = shared_bytes
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory-watch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._closed.wait(self._every_s):
            self.look()

    def look(self) -> None:
        """End every worker in use that holds more than it may; its end is then told as one for want of memory."""
        for worker in self._workers():
            try:
                if worker.in_use and worker.alive and self._held(worker.pid) > self._limit:
                    worker.out_of_memory = True
                    worker.kill()
            except PermissionError as error:
                self._do_with_less(error)
            except Exception as error:  # noqa: BLE001  (one worker's end must not keep the watch from the others)
                stderr.tell(f"A worker's memory could not be looked at: {error}\n")

    def _do_with_less(self, error: PermissionError) -> None:
        self._held = resident_bytes
        stderr.tell(
            f"The shared memory of workers is not seen in full ({error}): what they map just now is counted. "
            "Run the evaluator as root, or give it cgroups and set cgroups to required.\n"
        )

    def close(self) -> None:
        """Look no more."""
        self._closed.set()
        self._thread.join()
