"""Many workers one after another leave nothing behind, and pidfds behave."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from warpsmith.evaluator import _native
from warpsmith.evaluator._native import Exit, NativeError

CYCLES = """
    import gc, os, sys
    from pathlib import Path
    from warpsmith.evaluator import _native

    def cycle(policy):
        ours, theirs = _native.Channel.pair()
        worker = _native.spawn(policy, theirs)
        if isinstance(worker, _native.InChild):
            channel = _native.Channel(worker.fd)
            channel.send(1, b"ready")
            channel.recv()
            os._exit(0)
        os.close(theirs)
        assert ours.recv(20).payload == b"ready"
        _native.kill(worker.pidfd)
        assert _native.wait(worker.pidfd, 20) == _native.Exit(None, 9)
        os.close(worker.pidfd)
        os.close(worker.output_fd)
        ours.close()

    def state():
        memory = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))
        return len(os.listdir("/proc/self/fd")), Path(f"/proc/self/task/{os.getpid()}/children").read_text(), memory

    policy = _native.Policy(binds=[_native.Bind("/usr", "/usr")])
    for _ in range(20):
        cycle(policy)
    before = state()
    for _ in range(int(sys.argv[1])):
        cycle(policy)
    after = state()
    assert after[:2] == before[:2], (before, after)
    assert after[2] - before[2] < 2048, (before, after)
    print("clean")
"""


@pytest.mark.parametrize(
    "count", [50, pytest.param(3000, marks=[pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)])]
)
def test_cycles_of_spawn_and_kill_leave_nothing(tier, count):
    if tier != "namespaces":
        pytest.skip(f"this machine gives only the tier {tier}")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CYCLES), str(count)],
        check=False,
        capture_output=True,
        text=True,
        timeout=850,
    )
    assert (done.stdout, done.returncode) == ("clean\n", 0), done.stderr


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["/usr/bin/sleep", "1000"])
    pidfd = os.pidfd_open(process.pid)
    yield process, pidfd
    os.close(pidfd)
    process.returncode = 0


def test_a_wait_ends_with_its_deadline(sleeper):
    _, pidfd = sleeper
    assert _native.wait(pidfd, 0) is None
    assert _native.wait(pidfd, 0.01) is None
    _native.kill(pidfd)
    assert _native.wait(pidfd, 10) == Exit(None, signal.SIGKILL)


def test_a_kill_of_the_dead_is_no_error(sleeper):
    process, pidfd = sleeper
    process.terminate()
    assert _native.wait(pidfd, 10) == Exit(None, signal.SIGTERM)
    _native.kill(pidfd)
    with pytest.raises(NativeError):
        _native.wait(pidfd, 1)


def test_a_kill_spares_the_callers_own_process_group(sleeper):
    # The sleeper is in this process's group, which it does not lead: it alone dies, or this test would not end.
    process, pidfd = sleeper
    assert os.getpgid(process.pid) == os.getpgrp()
    _native.kill(pidfd)
    assert _native.wait(pidfd, 10) == Exit(None, signal.SIGKILL)


def test_what_is_no_pidfd_is_refused():
    with open(os.devnull) as null, pytest.raises(NativeError):
        _native.kill(null.fileno())
