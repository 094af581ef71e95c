"""Ends workers that exceed their memory limit where no process limit does.

CUDA needs shared memory, so a worker with a GPU can create some, and no process limit counts it: RLIMIT_DATA covers
private memory only. A cgroup bounds it if there is one. Otherwise the judge polls, so that a worker can exceed its
limit only by what it writes between two polls. Unnamed files queued in a socket are not seen.

The allocated size of an object counts, not only its mapped part. Reading that requires permission for
/proc/PID/map_files (root, or CAP_CHECKPOINT_RESTORE); without it resident pages are counted, which a worker can unmap
while their content remains.

Host code without a device maps more private memory than it can use (`sandbox/policies.py`), so its resident private
pages count, too.
"""
# pathlib objects took much time in a profile of the judge, whose timings run alongside this.
# ruff: noqa: PTH115, PTH116, PTH123, PTH208

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from warpsmith.evaluator.system import stderr

if TYPE_CHECKING:
    from warpsmith.evaluator.processes.worker import Worker

EVERY_S: Final = 0.2
BLOCK_BYTES: Final = 512
"""The unit of `st_blocks`."""
_OBJECTS: Final = (b"/dev/zero", b"/memfd:")
"""Markers of such memory in a line of /proc/PID/maps."""
_RESIDENT: Final = re.compile(r"^RssShmem:\s+(\d+) kB$", flags=re.MULTILINE)
_PRIVATE: Final = re.compile(r"^RssAnon:\s+(\d+) kB$", flags=re.MULTILINE)
_OWN: Final = re.compile(r"^Private_Dirty:\s+(\d+) kB$", flags=re.MULTILINE)
_UNNAMED: Final = "/memfd:"


def shared_bytes(pid: int, proc: Path = Path("/proc")) -> int:
    """Return the bytes of a process's unnamed shared memory, mapped or held open; 0 once the process is gone.

    Raises:
        PermissionError: this process lacks permission.
    """
    process = f"{proc}/{pid}"
    try:
        # An object that is mapped twice, or both mapped and open, counts once.
        return sum(dict([*_mapped(process), *_open(process)]).values())
    except (FileNotFoundError, ProcessLookupError):
        return 0


def resident_bytes(pid: int, proc: Path = Path("/proc")) -> int:
    """Return the bytes of shared memory that a process has resident; 0 once it is gone."""
    return _bytes_in(proc / str(pid) / "status", _RESIDENT)


def private_bytes(pid: int, proc: Path = Path("/proc")) -> int:
    """Return the bytes of private memory that a process has resident, inherited ones included; 0 once it is gone."""
    return _bytes_in(proc / str(pid) / "status", _PRIVATE)


def own_bytes(pid: int, proc: Path = Path("/proc")) -> int:
    """Return the bytes of private memory that a process shares with no zygote; 0 once it is gone.

    The kernel walks all of the process's pages to compute it, so it is read only when `private_bytes` exceeds a limit.
    """
    try:
        return _bytes_in(proc / str(pid) / "smaps_rollup", _OWN, refused=PermissionError)
    except PermissionError:
        return private_bytes(pid, proc)


def _bytes_in(file: Path, line: re.Pattern[str], refused: type[OSError] | tuple[()] = ()) -> int:
    """Return the kilobytes in a line, as bytes; 0 if the file is gone. An error of the type `refused` propagates."""
    try:
        found = line.search(file.read_text(encoding="utf-8", errors="replace"))
    except refused:
        raise
    except OSError:
        return 0
    return int(found[1]) << 10 if found else 0


def _mapped(process: str) -> Iterator[tuple[tuple[int, int], int]]:
    with open(f"{process}/maps", "rb") as file:
        maps = file.read()
    for line in {line for mark in _OBJECTS for line in lines_with(mark, maps)}:
        start, _, end = line.split(b" ", 1)[0].partition(b"-")
        yield from _object(f"{process}/map_files/{int(start, 16):x}-{int(end, 16):x}")


def lines_with(mark: bytes, text: bytes) -> Iterator[bytes]:
    """Yield the lines of a text that contain a marker, in order and without line ends."""
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
            unnamed = os.readlink(entry).startswith(_UNNAMED)
        except FileNotFoundError:
            continue  # closed meanwhile
        if unnamed:
            yield from _object(entry)


def _object(entry: str) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield the identity of an object (device, inode) and its bytes, unless it is gone."""
    try:
        found = os.stat(entry)
    except FileNotFoundError:
        return
    yield (found.st_dev, found.st_ino), found.st_blocks * BLOCK_BYTES


class MemoryWatch:
    """Polls the workers that run foreign code, in its own thread, until it is closed.

    Args:
        workers: returns the current workers.
        limit: bytes of shared memory that a worker may hold; of role `host`, shared and private.
        every_s: seconds between two polls.
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
        """Kill every worker in use that exceeds its limit; its end is then reported as out of memory."""
        for worker in self._workers():
            try:
                if worker.in_use and worker.alive and self._used(worker) > self._limit:
                    worker.out_of_memory = True
                    worker.kill()
            except PermissionError as error:
                self._fall_back(error)
            except Exception as error:  # noqa: BLE001  (one worker's end must not stop the watch of the others)
                stderr.report(f"The memory of a worker could not be read: {error}\n")

    def _used(self, worker: "Worker") -> int:
        held = self._held(worker.pid)
        if worker.role != "host" or held + private_bytes(worker.pid) <= self._limit:
            return held
        return held + own_bytes(worker.pid)

    def _fall_back(self, error: PermissionError) -> None:
        self._held = resident_bytes
        stderr.report(
            f"The shared memory of workers is not fully visible ({error}): only resident pages are counted. "
            "Run the evaluator as root, or give it cgroups and set cgroups to required.\n"
        )

    def close(self) -> None:
        """Stop polling."""
        self._closed.set()
        self._thread.join()
