"""What a contained worker holds of shared memory can be seen from outside, whatever it does with its mapping."""

import mmap
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from warpsmith.evaluator.processes.memory_watch import shared_bytes

SIZE = 64 << 20
DEADLINE_S = 30


def hold_given_back(size):
    room = mmap.mmap(-1, size, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
    room.write(bytes(size))
    room.madvise(mmap.MADV_DONTNEED)
    signal.pause()


def hold_in_a_file(size):
    file = os.memfd_create("room")
    os.write(file, bytes(size))
    signal.pause()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may follow /proc/PID/map_files")
@pytest.mark.parametrize("hold", [hold_given_back, hold_in_a_file])
def test_what_a_worker_holds_is_seen_from_outside(contained, hold):
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(contained, hold, SIZE, shared_memory=True, file_bytes=2 * SIZE, patience_s=DEADLINE_S)
        holder, deadline = None, time.monotonic() + DEADLINE_S
        while holder is None:
            assert time.monotonic() < deadline
            workers = psutil.Process(contained.process.pid).children(recursive=True)
            holder = next((one.pid for one in workers if shared_bytes(one.pid) >= SIZE), None)
        os.kill(holder, signal.SIGKILL)
        assert ended.result(DEADLINE_S).exit == [None, signal.SIGKILL]
