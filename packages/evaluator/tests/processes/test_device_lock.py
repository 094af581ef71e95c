"""Judges in several processes share a device, and one that is alone is alone among all of them."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from warpsmith.evaluator.errors import JudgeUnavailableError
from warpsmith.evaluator.processes import device_lock
from warpsmith.evaluator.processes.device_lock import DeviceLock
from warpsmith.evaluator.processes.lease import Lease

DEADLINE_S = 60

# Each process counts its own uses in its row of a shared file; who is alone reads the rows of all.
JUDGE = """
import mmap, random, struct, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from warpsmith.evaluator.processes.device_lock import DeviceLock
from warpsmith.evaluator.processes.lease import Lease

folder, me, processes, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
file = open(folder / "rows", "r+b")
rows = mmap.mmap(file.fileno(), 0)
beside = sys.argv[5] == "beside"
lease = Lease(starts_together=2, others=DeviceLock("GPU-1", folder), driver_beside=beside)
# The last row is of the driver that may work beside one that is alone.
WAYS = ("shared", "starting", "alone", "driving")
held, guard = dict.fromkeys(WAYS, 0), threading.Lock()

def change(way, by):
    with guard:
        held[way] += by
        struct.pack_into("4i", rows, 16 * me, *held.values())

def seen():
    every = [struct.unpack_from("4i", rows, 16 * number) for number in range(processes)]
    return tuple(map(sum, zip(*every)))

@contextmanager
def counted(way):
    change(way, 1)
    yield
    change(way, -1)

def live(seed):
    rng = random.Random(seed)
    for _ in range(40):
        way = rng.choice(["shared", "shared", "starting", "driving", "alone"])
        with getattr(lease, way)(), counted(way):
            for _ in range(3):
                found = seen()
                if way == "alone":
                    assert found[:3] == (0, 0, 1), found
                    assert beside or not found[3], found
                elif way != "driving" or not beside:
                    assert not found[2], (way, found)
                else:
                    with lease.shared(), counted("shared"):
                        assert not seen()[2], found
                time.sleep(rng.random() / 500)
            if way == "shared":
                change("shared", -1)
                lease.give_way()
                with lease.released():
                    pass
                change("shared", 1)
    return True

with ThreadPoolExecutor(5) as threads:
    assert all(threads.map(live, range(seed, seed + 5)))
"""

HOLDER = """
import sys, time
from pathlib import Path
from warpsmith.evaluator.processes.device_lock import DeviceLock
from warpsmith.evaluator.processes.lease import Lease

with getattr(Lease(others=DeviceLock("GPU-1", Path(sys.argv[1]))), sys.argv[2])():
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("driver", ["beside", "apart"])
def test_whatever_several_processes_do_none_is_beside_one_that_is_alone_and_all_come_to_an_end(tmp_path, driver):
    (tmp_path / "rows").write_bytes(bytes(48))
    judges = [
        subprocess.Popen([sys.executable, "-c", JUDGE, str(tmp_path), str(me), "3", str(100 * me), driver])
        for me in range(3)
    ]
    try:
        assert [judge.wait(DEADLINE_S) for judge in judges] == [0, 0, 0]
    finally:
        for judge in judges:
            judge.kill()


@pytest.mark.parametrize("way", ["shared", "starting", "driving", "alone"])
@pytest.mark.parametrize("wanted", ["shared", "starting", "driving", "alone"])
def test_what_a_process_held_ends_with_it(tmp_path, way, wanted):
    lease = Lease(others=DeviceLock("GPU-1", tmp_path))
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path), way], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout.readline() == b"held\n"
            holder.send_signal(signal.SIGKILL)
            with getattr(lease, wanted)():
                pass
        finally:
            holder.kill()


def test_a_process_that_shares_gives_way_to_another_that_wants_it_alone(tmp_path):
    lease, watcher = Lease(others=DeviceLock("GPU-1", tmp_path)), DeviceLock("GPU-1", tmp_path)
    holder = [sys.executable, "-c", HOLDER, str(tmp_path), "alone"]
    with lease.shared(), subprocess.Popen(holder, stdout=subprocess.PIPE) as other:
        try:
            deadline = time.monotonic() + DEADLINE_S
            while not watcher.is_awaited():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            os.set_blocking(other.stdout.fileno(), False)
            assert not other.stdout.read()
            os.set_blocking(other.stdout.fileno(), True)
            with lease.released():
                assert other.stdout.readline() == b"held\n"
                other.kill()
        finally:
            other.kill()


class Waited(DeviceLock):
    """A lock that tells when a thread waits for another judge that wants the device alone."""

    def __init__(self, folder) -> None:
        super().__init__("GPU-1", folder)
        self.waits = threading.Event()

    def await_no_wanter(self) -> None:
        self.waits.set()
        super().await_no_wanter()


@pytest.mark.parametrize("driving", [0, 1])
def test_the_driver_begins_nothing_while_another_judge_wants_the_device_alone(tmp_path, driving):
    """Also beside what it does already: else its work could go on forever, and the other judge would wait for it."""
    lock, other = Waited(tmp_path), DeviceLock("GPU-1", tmp_path)
    lease, blocked, began = Lease(others=lock), threading.Event(), threading.Event()

    def want():
        other.block_starts()
        blocked.set()

    def drive():
        with lease.driving():
            began.set()

    with ExitStack() as held:
        for _ in range(driving):
            held.enter_context(lease.driving())
        wanting = threading.Thread(target=want, daemon=True)
        wanting.start()
        probe = DeviceLock("GPU-1", tmp_path)
        while probe._is_free("wanted"):
            time.sleep(0.001)
        threading.Thread(target=drive, daemon=True).start()
        assert lock.waits.wait(DEADLINE_S)
        assert not (driving and blocked.is_set())
    assert blocked.wait(DEADLINE_S)
    assert not began.is_set()
    other.end_alone()
    assert began.wait(DEADLINE_S)


def test_the_driver_that_may_work_beside_another_judge_that_is_alone_waits_for_none(tmp_path):
    other = DeviceLock("GPU-1", tmp_path)
    other.block_starts()
    other.block_uses()
    other.await_uses()
    with Lease(others=DeviceLock("GPU-1", tmp_path), driver_beside=True).driving() as must_borrow:
        assert must_borrow


def test_a_lock_that_is_no_file_of_this_user_is_refused(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.touch()
    (tmp_path / f"{device_lock.PREFIX}{os.geteuid()}-GPU-1-turn").symlink_to(elsewhere)
    with pytest.raises(JudgeUnavailableError, match="turn cannot be opened") as caught:
        DeviceLock("GPU-1", tmp_path)
    assert "Remove" in caught.value.remedy


def open_files(folder):
    found = [Path(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    return [fd for fd in found if fd.exists() and fd.resolve().parent == folder]


def test_a_lock_leaves_no_file_open(tmp_path):
    lock = DeviceLock("GPU-1", tmp_path)
    assert lock.try_share()
    assert len(open_files(tmp_path)) == 8
    lock.close()
    assert not open_files(tmp_path)
    lock.end_sharing()
    with pytest.raises(JudgeUnavailableError, match="closed"):
        lock.try_share()
    dropped = DeviceLock("GPU-1", tmp_path)
    del dropped
    (tmp_path / f"{device_lock.PREFIX}{os.geteuid()}-GPU-1-use").unlink()
    (tmp_path / f"{device_lock.PREFIX}{os.geteuid()}-GPU-1-use").symlink_to(tmp_path)
    with pytest.raises(JudgeUnavailableError, match="use cannot be opened"):
        DeviceLock("GPU-1", tmp_path)
    assert not open_files(tmp_path)


@pytest.mark.parametrize("way", ["shared", "starting", "driving", "alone"])
def test_judges_share_a_lock_also_after_its_files_were_removed(tmp_path, way):
    lease = Lease(others=DeviceLock("GPU-1", tmp_path))
    with lease.shared():
        for path in tmp_path.iterdir():
            path.unlink()
    other = DeviceLock("GPU-1", tmp_path)
    with getattr(lease, way)():
        assert other.try_share() == (way != "alone")
        other.end_sharing()
        if way in {"starting", "driving"}:
            with pytest.raises(BlockingIOError):
                fcntl.flock(other._held["starts", "alone"], fcntl.LOCK_EX | fcntl.LOCK_NB)
        elif way == "shared":
            with pytest.raises(BlockingIOError):
                fcntl.flock(other._held["use", "alone"], fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_files_in_use_are_touched(tmp_path, monkeypatch):
    lease = Lease(others=DeviceLock("GPU-1", tmp_path))
    for path in tmp_path.iterdir():
        os.utime(path, (1, 1))
    with lease.alone():
        pass
    assert {path.stat().st_mtime for path in tmp_path.iterdir()} == {1}
    monkeypatch.setattr(device_lock, "TOUCHED_S", 0)
    with lease.alone():
        pass
    assert all(path.stat().st_mtime > 1 for path in tmp_path.iterdir())


def test_devices_do_not_share_a_lock(tmp_path):
    one, other = (Lease(others=DeviceLock(name, tmp_path)) for name in ("GPU-1", "GPU-2"))
    with one.alone(), other.alone():
        pass
