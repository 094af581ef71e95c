"""Workers that make shared memory without bound are ended: here real processes that do."""

import os
import signal
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator import _native
from warpsmith.evaluator.processes.memory_watch import (
    MemoryWatch,
    lines_with,
    own_bytes,
    private_bytes,
    resident_bytes,
    shared_bytes,
)
from warpsmith.evaluator.processes.worker import Worker

LIMIT = 64 << 20
DEADLINE_S = 30
START = "import mmap, os, sys\n"
WAIT = "print('ready', flush=True)\nsys.stdin.readline()\n"
MAPPED = "room = mmap.mmap(-1, {size}, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)\nroom.write(bytes({size}))\n"
WRITTEN = "file = os.memfd_create('room')\nos.write(file, bytes({size}))\n"
GIVEN_BACK = MAPPED + "room.madvise(mmap.MADV_DONTNEED)\n"
MAPPED_ONLY = "room = mmap.mmap(-1, {size}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
PRIVATE = "room = bytearray(bytes({size}))\n"
FORKED = """
child = os.fork()
if not child:
    sys.stdin.readline()
    os._exit(0)
print('ready', child, sep=chr(10), flush=True)
"""
SHARED = [MAPPED, GIVEN_BACK, WRITTEN]


def sees_all() -> bool:
    try:
        next((Path("/proc/self/map_files")).iterdir()).stat()
    except PermissionError:
        return False
    return True


pytestmark = pytest.mark.skipif(not sees_all(), reason="only root may follow /proc/PID/map_files")


class Process:
    """A process that makes memory and waits, as a worker that is in use."""

    def __init__(self, makes: str, size: int) -> None:
        code = START + makes.format(size=size) + WAIT
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.worker = Worker("candidate", 1, _native.Channel.pair()[0])
        self.worker.started(self.process.pid, "none", os.pidfd_open(self.process.pid), -1)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def process():
    made = []

    def make(makes: str, size: int) -> Process:
        made.append(Process(makes, size))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize(("role", "makes"), [*(("candidate", makes) for makes in SHARED), ("host", PRIVATE)])
def test_one_that_holds_more_than_it_may_is_ended_for_want_of_memory(process, role, makes):
    hog = process(makes, 2 * LIMIT)
    hog.worker.role, hog.worker.in_use = role, True
    watch = MemoryWatch(lambda: [hog.worker], LIMIT, every_s=0.01)
    try:
        assert hog.process.wait(DEADLINE_S) == -signal.SIGKILL
    finally:
        watch.close()
    assert hog.worker.out_of_memory


@pytest.mark.parametrize(("makes", "size"), [(MAPPED, LIMIT // 2), (WRITTEN, LIMIT // 2), (PRIVATE, 2 * LIMIT)])
def test_one_that_holds_less_or_private_memory_goes_on(process, makes, size):
    looked: Future[None] = Future()
    worker = process(makes, size).worker
    worker.in_use = True
    looks = []

    def workers():
        looks.append(1)
        if len(looks) == 3:
            looked.set_result(None)
        return [worker]

    watch = MemoryWatch(workers, LIMIT, every_s=0.01)
    looked.result(DEADLINE_S)
    watch.close()
    assert worker.alive
    assert not worker.out_of_memory


def test_private_memory_that_a_process_was_forked_with_is_not_its_own(process):
    parent = process(PRIVATE + FORKED, 2 * LIMIT)
    child = int(parent.process.stdout.readline())
    assert private_bytes(child) >= 2 * LIMIT
    assert own_bytes(child) < LIMIT
    assert own_bytes(1 << 22) == 0


def test_host_code_can_map_more_than_it_may_use(process):
    worker = process(MAPPED_ONLY, 64 * LIMIT).worker
    worker.role, worker.in_use = "host", True
    watch = MemoryWatch(lambda: [worker], LIMIT, every_s=DEADLINE_S)
    watch.look()
    watch.close()
    assert worker.alive


def test_one_that_nobody_uses_yet_is_not_looked_at(process):
    hog = process(MAPPED, 2 * LIMIT)
    watch = MemoryWatch(lambda: [hog.worker], LIMIT, every_s=DEADLINE_S)
    watch.look()
    assert hog.worker.alive
    hog.worker.mark_taken()
    watch.look()
    watch.close()
    assert hog.process.wait(DEADLINE_S) == -signal.SIGKILL


def test_what_goes_wrong_with_one_keeps_it_from_no_other(process, capfd):
    hog = process(MAPPED, 2 * LIMIT)
    hog.worker.in_use = True

    def fail():
        raise RuntimeError("of some kind")

    broken = SimpleNamespace(role="candidate", in_use=True, alive=True, pid=hog.process.pid, kill=fail)
    watch = MemoryWatch(lambda: [broken, hog.worker], LIMIT, every_s=DEADLINE_S)
    watch.look()
    watch.close()
    assert hog.process.wait(DEADLINE_S) == -signal.SIGKILL
    assert "of some kind" in capfd.readouterr().err


def test_who_may_not_look_counts_what_is_mapped_and_says_so_once(process, monkeypatch, capfd):
    def refused(pid):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("warpsmith.evaluator.processes.memory_watch.shared_bytes", refused)
    hog = process(MAPPED, 2 * LIMIT)
    hog.worker.in_use = True
    watch = MemoryWatch(lambda: [hog.worker], LIMIT, every_s=DEADLINE_S)
    watch.look()
    assert hog.worker.alive
    watch.look()
    watch.look()
    watch.close()
    assert hog.process.wait(DEADLINE_S) == -signal.SIGKILL
    assert capfd.readouterr().err.count("cgroups") == 2


@pytest.mark.parametrize("makes", SHARED)
def test_shared_memory_is_counted_also_where_its_pages_are_given_back(process, makes):
    assert LIMIT <= shared_bytes(process(makes, LIMIT).process.pid) < 1.1 * LIMIT


def test_what_is_mapped_and_open_counts_once(process):
    both = WRITTEN + "room = mmap.mmap(file, {size})\nother = mmap.mmap(file, {size})\n"
    assert shared_bytes(process(both, LIMIT).process.pid) < 1.1 * LIMIT


@given(st.lists(st.lists(st.sampled_from([b"mark", b"ma", b"rk", b" ", b"x"])).map(b"".join)), st.booleans())
def test_the_lines_with_a_mark_are_found(lines, ended):
    text = b"\n".join(lines) + (b"\n" if ended else b"")
    assert list(lines_with(b"mark", text)) == [line for line in lines if b"mark" in line]


def test_private_memory_is_not_counted(process):
    pid = process(PRIVATE, LIMIT).process.pid
    assert (shared_bytes(pid), resident_bytes(pid) < LIMIT // 4) == (0, True)


def test_a_process_that_is_gone_holds_nothing(process):
    gone = process(PRIVATE, 1)
    gone.close()
    assert (shared_bytes(gone.process.pid), resident_bytes(gone.process.pid)) == (0, 0)
