"""Workers that make shared memory without bound are ended: here real processes that do."""

import os
import signal
import subprocess
import sys
from concurrent.futures import Future

import pytest

from warpsmith.evaluator import _native
from warpsmith.evaluator.memory_watch import MemoryWatch, shared_bytes
from warpsmith.evaluator.pool import Worker

LIMIT = 64 << 20
DEADLINE_S = 30
START = "import mmap, os, sys\n"
WAIT = "print('ready', flush=True)\nsys.stdin.readline()\n"
MAPPED = "room = mmap.mmap(-1, {size}, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)\nroom.write(bytes({size}))\n"
WRITTEN = "file = os.memfd_create('room')\nos.write(file, bytes({size}))\n"
PRIVATE = "room = bytearray(bytes({size}))\n"


class Process:
    """A process that makes memory and waits, as a worker that is in use."""

    def __init__(self, makes: str, size: int) -> None:
        code = START + makes.format(size=size) + WAIT
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.worker = Worker("candidate", 1, _native.Channel.pair()[0])
        self.worker.born(self.process.pid, "none", os.pidfd_open(self.process.pid), -1)
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


@pytest.mark.parametrize("makes", [MAPPED, WRITTEN])
def test_one_that_holds_more_than_it_may_is_ended_for_want_of_memory(process, makes):
    hog = process(makes, 2 * LIMIT)
    hog.worker.in_use = True
    watch = MemoryWatch(lambda: [hog.worker], LIMIT, every_s=0.01)
    try:
        assert hog.process.wait(DEADLINE_S) == -signal.SIGKILL
    finally:
        watch.close()
    assert hog.worker.out_of_memory


@pytest.mark.parametrize(("makes", "size"), [(MAPPED, LIMIT // 4), (WRITTEN, LIMIT // 4), (PRIVATE, 2 * LIMIT)])
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


def test_one_that_nobody_uses_yet_is_not_looked_at(process):
    worker = process(MAPPED, 2 * LIMIT).worker
    watch = MemoryWatch(lambda: [worker], LIMIT, every_s=DEADLINE_S)
    watch.look()
    watch.close()
    assert worker.alive
    worker.taken()
    assert worker.in_use


@pytest.mark.parametrize(("makes", "size"), [(MAPPED, LIMIT), (WRITTEN, LIMIT), (PRIVATE, LIMIT)])
def test_shared_memory_is_counted_and_private_memory_is_not(process, makes, size):
    counted = shared_bytes(process(makes, size).process.pid)
    assert counted >= size if makes != PRIVATE else counted < size // 4


def test_a_process_that_is_gone_holds_nothing(process):
    gone = process(PRIVATE, 1)
    gone.close()
    assert shared_bytes(gone.process.pid) == 0
