"""A process of one thread that spawns contained workers on request, for the tests beside it.

Reads one JSON request a line on stdin and writes one JSON answer a line on stdout. A worker runs a Python function
that the request carries as source; `say(value)` in it sends a value before the function returns.
"""

import ctypes  # noqa: F401  (imported before the fork: a worker may not be able to read the standard library)
import errno  # noqa: F401
import fcntl  # noqa: F401
import json
import mmap  # noqa: F401
import os
import resource  # noqa: F401
import select
import signal  # noqa: F401
import socket  # noqa: F401
import stat  # noqa: F401
import subprocess  # noqa: F401
import sys
import tempfile  # noqa: F401
import threading  # noqa: F401
import time
import traceback
from typing import Any

from warpsmith.evaluator import _native

VALUE, RESULT, RAISED = 1, 2, 3


def answer(request: dict[str, Any], cgroups: _native.Cgroups | None) -> dict[str, Any]:
    """Spawn one worker as the request says, and report what it said and how it ended."""
    ours, theirs = _native.Channel.pair()
    extra = os.open("/etc/passwd", os.O_RDONLY)
    os.set_inheritable(extra, True)
    started = time.perf_counter()
    try:
        policy = _native.Policy(**request["policy"])
        worker = _native.spawn(policy, theirs, cgroups)
    except _native.NativeError as error:
        fields = {"layer": error.layer, "operation": error.operation, "errno": error.errno, "text": str(error)}
        return {"failure": fields}
    finally:
        if os.getpid() == PARENT:
            os.close(theirs)
            os.close(extra)
    if isinstance(worker, _native.InChild):
        run_in_worker(worker, request)
    controls = read_controls(cgroups, worker) if cgroups else None
    report = listen(ours, worker, request)
    report["tier"] = worker.tier
    if cgroups:
        report["cgroup"] = {
            "controls": controls,
            "events": cgroups.remove(worker.cgroup),
            "left": os.listdir(cgroups.path),
        }
    report["seconds"] = time.perf_counter() - started
    os.close(worker.pidfd)
    os.close(worker.output_fd)
    ours.close()
    return report


def read_controls(cgroups: _native.Cgroups, worker: _native.Spawned) -> dict[str, str]:
    """Return the limits of a worker's cgroup, and whether the worker is in it, as its maker sees them."""
    folder = os.path.join(cgroups.path, worker.cgroup)
    wanted = ("memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cgroup.procs")
    controls = {}
    for name in filter(lambda name: os.path.exists(os.path.join(folder, name)), wanted):
        with open(os.path.join(folder, name)) as file:
            controls[name] = file.read().strip()
    return controls | {"is its own": str(worker.pid) in controls["cgroup.procs"].split()}


def run_in_worker(worker: _native.InChild, request: dict[str, Any]) -> None:
    channel = _native.Channel(worker.fd)
    namespace: dict[str, Any] = {**globals(), "say": lambda value: channel.send(VALUE, json.dumps(value).encode())}
    try:
        exec(request["source"], namespace)
        result = namespace[request["name"]](*request["arguments"])
        channel.send(RESULT, json.dumps(result).encode())
    except BaseException:
        channel.send(RAISED, json.dumps(traceback.format_exc()).encode())
    finally:
        os._exit(0)


def listen(channel: _native.Channel, worker: _native.Spawned, request: dict[str, Any]) -> dict[str, Any]:
    report: dict[str, Any] = {"said": [], "result": None, "raised": None, "killed": False, "ended_by": None}
    deadline = time.monotonic() + request["patience_s"]
    try:
        while True:
            kind, payload, _ = channel.recv(max(0.0, deadline - time.monotonic()))
            value = json.loads(payload)
            if kind == VALUE:
                report["said"].append(value)
                if request["kill_when_said"]:
                    _native.kill(worker.pidfd)
                    report["killed"] = True
            else:
                report["result" if kind == RESULT else "raised"] = value
    except (_native.PeerClosed, _native.FrameError) as error:
        report["ended_by"] = type(error).__name__
    except _native.DeadlineExceeded:
        _native.kill(worker.pidfd)
        report["killed"] = True
    report["exit"] = _native.wait(worker.pidfd, 10)
    report["output"] = os.pread(worker.output_fd, 1 << 20, 0).rstrip(b"\0").decode(errors="replace")
    report["alive_after"] = survivors(worker.pid)
    return report


def survivors(session: int) -> list[int]:
    """Return the processes of a session that have not ended within five seconds of a kill, which is no wait."""
    for process in processes_of_session(session):
        try:
            pidfd = os.pidfd_open(process)
        except ProcessLookupError:
            continue
        select.select([pidfd], [], [], 5)
        os.close(pidfd)
    return processes_of_session(session)


def processes_of_session(session: int) -> list[int]:
    """Return the processes, but zombies, whose session is `session`."""
    alive = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            alive.append(int(entry))
    return alive


if __name__ == "__main__":
    PARENT = os.getpid()
    os.environ["CANARY"] = "canary-in-the-environment"
    given = _native.Cgroups.open() if "cgroups" in sys.argv else None
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line), given)) + "\n")
        sys.stdout.flush()
    if given:
        given.close()
