# ruff: noqa: F821  (the functions that run in a worker use modules that its process has imported)
"""The tier for places without namespaces: one worker, its own files and its own process group."""

import errno
import os
import signal
import stat
import subprocess
from pathlib import Path

import pytest


def facts() -> dict:
    with open("/proc/self/status") as file:
        status = dict(line.rstrip("\n").split(":", 1) for line in file)
    return {name: status[name].split()[0] for name in ("NoNewPrivs", "Seccomp", "CapEff", "Uid")}


def test_the_worker_is_confined(landlocked):
    report = landlocked(facts)
    assert report.tier == "landlock"
    assert report.result["NoNewPrivs"] == "1"
    assert report.result["Seccomp"] == "2"
    assert report.result["CapEff"] == "0" * 16
    only_id = Path("/proc/self/uid_map").read_text().split()[2] == "1"
    assert only_id or report.result["Uid"] != "0"


def attempt(calls: list) -> dict:
    outcomes = {}
    for call in calls:
        try:
            eval(call)
            outcomes[call] = 0
        except OSError as error:
            outcomes[call] = error.errno
    return outcomes


REFUSED = [
    "open('/etc/passwd')",
    "open('/etc/hostname')",
    "os.listdir('/')",
    "os.listdir('/home')",
    "os.listdir('/proc')",
    "open('/proc/1/status')",
    "open('/tmp/warpsmith-x', 'w')",
    "open('/dev/shm/warpsmith-x', 'w')",
    "os.mkdir('/tmp/warpsmith-x')",
    "os.setsid()",
    "os.setpgid(0, 0)",
    "os.fork()",
    "os.execv('/usr/bin/true', ['true'])",
    "os.kill(1, 0)",
    "os.kill(-1, 0)",
    "os.kill(os.getppid(), 0)",
    "signal.pidfd_send_signal(0, 0)",
    "os.pidfd_open(os.getppid())",
    "os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
    "os.sched_setaffinity(os.getppid(), [0])",
    "resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (10, 10))",
    "socket.socket(socket.AF_UNIX)",
    "socket.socket(socket.AF_INET)",
    "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "os.memfd_create('x')",
]
ALLOWED = [
    "open('/dev/null', 'w')",
    "open('/proc/self/status')",
    "open('/proc/meminfo')",
    "os.listdir('/usr/lib')",
    "os.kill(os.getpid(), 0)",
    "socket.socketpair()",
    "resource.getrlimit(resource.RLIMIT_NOFILE)",
]


def test_what_is_refused(landlocked):
    outcomes = landlocked(attempt, REFUSED).result
    assert {call for call, error in outcomes.items() if error not in {errno.EPERM, errno.EACCES}} == set()


def test_what_is_allowed(landlocked):
    assert landlocked(attempt, ALLOWED).result == dict.fromkeys(ALLOWED, 0)


def describe_place() -> list:
    with open("here", "w") as file:
        file.write("x")
    return [os.getcwd(), os.environ["TMPDIR"]]


@pytest.fixture
def open_scratch():
    """A directory that another user can reach, as a scratch of this tier must be."""
    import shutil
    import tempfile

    path = tempfile.mkdtemp(prefix="warpsmith-test-", dir="/tmp")
    os.chmod(path, 0o777)
    yield path
    shutil.rmtree(path)


def test_the_scratch_is_the_callers_directory(landlocked, open_scratch):
    assert landlocked(describe_place, scratch_path=open_scratch).result == [open_scratch] * 2
    assert stat.S_IMODE(os.stat(f"{open_scratch}/here").st_mode) == 0o600


def test_a_bind_cannot_move(landlocked):
    failure = landlocked(describe_place, binds=[["/usr", "/elsewhere", False]]).failure
    assert failure["layer"] == "landlock"
    assert "/elsewhere" in failure["text"]


def leave_children_behind() -> None:
    for _ in range(3):
        if os.fork() == 0:
            if os.fork() == 0:
                signal.pause()
            os._exit(0)
    say("left")
    signal.pause()


def test_a_kill_takes_the_whole_group(landlocked):
    report = landlocked(leave_children_behind, exec_paths=["/usr/bin/true"], kill_when_said=True)
    assert report.exit == [None, signal.SIGKILL]
    assert report.alive_after == []


def leave_children_and_exit() -> None:
    for _ in range(3):
        if os.fork() == 0:
            signal.pause()
    os._exit(0)


def test_what_a_worker_leaves_dies_when_it_is_reaped(landlocked):
    report = landlocked(leave_children_and_exit, exec_paths=["/usr/bin/true"], patience_s=1)
    assert report.alive_after == []


def run_program() -> list:
    refused = 0
    try:
        subprocess.run(["/usr/bin/ls"], check=False)
    except OSError as error:
        refused = error.errno
    return [subprocess.run(["/usr/bin/true"], check=False).returncode, refused]


def test_only_the_named_programs_run(landlocked):
    assert landlocked(run_program, exec_paths=["/usr/bin/true"]).result == [0, errno.EACCES]


def abort() -> None:
    os.abort()


def test_an_abort_is_an_abort(landlocked):
    assert landlocked(abort).exit == [None, signal.SIGABRT]
