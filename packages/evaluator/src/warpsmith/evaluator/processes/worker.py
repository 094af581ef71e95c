"""A worker as the judge sees it: one sandboxed process, its channel, its end, and what it used."""

import os
import re
import select
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

from warpsmith.evaluator import _native
from warpsmith.evaluator.devices.kinds import Role
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import messages
from warpsmith.evaluator.ipc.messages import Kind, Message
from warpsmith.evaluator.sandbox.roles import EXHAUSTED_CODE

OUTPUT_TAIL_BYTES: Final = 2000
FORK_TIMEOUT_S: Final = 30.0


class WorkerStartError(Exception):
    """A worker or its zygote could not be started: a resource of the machine ran out, or the zygote failed at start.

    No foreign code has run by then. A retry may succeed.
    """


class WorkerDiedError(Exception):
    """A worker ended without an answer; `out_of_memory`: it was killed at the memory limit of its own cgroup."""

    def __init__(self, role: str, ended: "_native.Exit | None", *, out_of_memory: bool = False) -> None:
        how = "its zygote died" if ended is None else f"exit code {ended.code}, signal {ended.signal}"
        if ended is not None and ended.code == EXHAUSTED_CODE:
            how = "the machine, or a limit around it, had no more memory, processes or descriptors: ulimit -v, -u, -n"
        how = "it reached its memory limit" if out_of_memory else how
        super().__init__(f"the {role} worker ended without an answer ({how})")
        self.role = role
        self.ended = ended
        self.out_of_memory = out_of_memory
        # Whether it ended before its first use, so that foreign code cannot be the cause.
        self.at_start = False

    @property
    def lost_with_zygote(self) -> bool:
        """Whether the worker ended because the process that forks workers did."""
        return self.ended is None

    @property
    def killed(self) -> bool:
        """Whether the worker was killed from outside, for example by the kernel when the machine is out of memory."""
        return self.ended is not None and self.ended.signal == signal.SIGKILL and not self.out_of_memory


class WorkerTimeoutError(Exception):
    """A worker gave no answer before the deadline.

    `cpu_seconds` is the CPU time that it had used by then; `starved_seconds` is the time, since it was taken, in which
    it was ready to run but other processes had the processors. Both are None if unknown.
    """

    def __init__(self, role: str, cpu_seconds: float | None = None, starved_seconds: float | None = None) -> None:
        super().__init__(f"the {role} worker gave no answer before its deadline")
        self.role = role
        self.cpu_seconds = cpu_seconds
        self.starved_seconds = starved_seconds


class Worker:
    """One contained process and the judge's end of its channel. Single-use: it is killed after its use."""

    def __init__(self, role: Role, number: int, channel: _native.Channel) -> None:
        self.role = role
        self.number = number
        self.channel = channel
        self.tier = "none"
        self.pid = 0
        self.ended: Future[_native.Exit | None] = Future()
        self.out_of_memory = False
        self.orphaned = False
        self.in_use = False
        self._pidfd = -1
        self._output_fd = -1
        self._handles = threading.Lock()
        self._delay_when_taken: float | None = None
        self._peak_when_taken = 0

    def started(self, pid: int, tier: str, pidfd: int, output_fd: int) -> None:
        self.pid, self.tier, self._pidfd, self._output_fd = pid, tier, pidfd, output_fd

    @property
    def alive(self) -> bool:
        """Whether the process and its zygote run; up to date even before the zygote reports an end."""
        return not self.orphaned and not self.ended.done() and not _has_ended(self._pidfd)

    def send(self, kind: Kind, fields: dict[str, Any], fds: list[int], timeout_s: float) -> None:
        """Send one message; WorkerDiedError or WorkerTimeoutError as for `receive`."""
        self._guarded(lambda: messages.send(self.channel, kind, fields, fds, max(timeout_s, 0.0)))

    def receive(self, timeout_s: float) -> Message:
        """Receive one message. After `timeout_s` not even a message that has already arrived is received.

        Raises:
            WorkerDiedError: the worker ended first.
            WorkerTimeoutError: the deadline passed first; the worker still runs.
            WireError, FrameError: the worker sent an invalid message, or descriptors, which no worker may send.
        """
        if timeout_s <= 0:
            raise self._overrun()
        message: Message = self._guarded(lambda: messages.receive(self.channel, timeout_s))
        if message.fds:
            messages.close_all(message.fds)
            raise WireError(f"The {self.role} worker sent {len(message.fds)} descriptors; none were expected.")
        return message

    def answers(self, timeout_s: float) -> bool:
        """Whether an idle worker answers within `timeout_s`.

        A process that was just killed counts as alive until it is gone, but it does not answer.
        """
        try:
            self.send(Kind.PING, {}, [], timeout_s)
            return self.receive(timeout_s).kind is Kind.PONG
        except (WorkerDiedError, WorkerTimeoutError, WireError, _native.NativeError):
            return False

    def _guarded(self, operation: Callable[[], Any]) -> Any:
        try:
            return operation()
        except _native.PeerClosed as error:
            ended = self._await_end()
            raise WorkerDiedError(self.role, ended, out_of_memory=self.out_of_memory) from error
        except _native.DeadlineExceeded as error:
            raise self._overrun() from error

    def _overrun(self) -> WorkerTimeoutError:
        starved, before = self.run_delay(), self._delay_when_taken
        since = None if starved is None or before is None else max(starved - before, 0.0)
        if since is not None and self.role == "compile":
            # A compiler's parts run one after another; how long finished ones waited is unknown.
            since += max((_delay_of(pid) for pid in _descendants(self.pid)), default=0.0)
        return WorkerTimeoutError(self.role, self.cpu_seconds(), since)

    def _await_end(self) -> "_native.Exit | None":
        # A worker may close its channel and live on; kill it, so that it has an exit to report.
        try:
            return self.ended.result(timeout=0.5)
        except TimeoutError:
            self.kill()
        return self.ended.result(timeout=FORK_TIMEOUT_S)

    def cpu_seconds(self) -> float | None:
        """Return the CPU time the worker's first process has used, or None once it is gone."""
        try:
            status = _read(self.pid, "stat")
        except OSError:
            return None
        # The program's name, which can contain anything, ends at the last bracket; fields 14 to 17 are times.
        ticks = sum(int(value) for value in status.rpartition(b")")[2].split()[11:15])
        return ticks / os.sysconf("SC_CLK_TCK")

    def used_bytes(self) -> int:
        """Return the worker's peak memory since it was taken from the pool, or 0 once it is gone."""
        return max(self._peak_bytes() - self._peak_when_taken, 0)

    def _peak_bytes(self) -> int:
        try:
            status = _read(self.pid, "status")
        except OSError:
            return 0
        found = re.search(rb"^VmHWM:\s+(\d+) kB$", status, flags=re.MULTILINE)
        return int(found[1]) << 10 if found else 0

    def mark_taken(self) -> None:
        """Measure starvation and memory from now on: the worker's start does not count towards its user."""
        self.in_use = True
        self._delay_when_taken = self.run_delay()
        self._peak_when_taken = self._peak_bytes()

    def run_delay(self) -> float | None:
        """Return the seconds in which the worker's first thread was ready to run but others had the processors.

        The CPU time of its other threads is subtracted, so that a worker cannot starve itself. None if the kernel does
        not account for it (no CONFIG_SCHED_INFO) or the worker is gone.
        """
        try:
            ran, delayed, _ = map(int, _read(self.pid, "schedstat").split())
        except (OSError, ValueError):
            return None
        used = self.cpu_seconds()
        if not ran or used is None:
            return None
        return max(delayed / 1e9 - max(used - ran / 1e9, 0.0), 0.0)

    def printed(self) -> str:
        """Return the end of the worker's stdout and stderr; the file is padded with zero bytes."""
        if self._output_fd < 0:
            return ""
        text = os.pread(self._output_fd, 1 << 20, 0).rstrip(b"\0")
        return text[-OUTPUT_TAIL_BYTES:].decode("utf-8", "replace")

    def kill(self) -> None:
        """End the process; a caller that waits for its answer gets WorkerDiedError."""
        with self._handles:
            if self._pidfd >= 0 and not self.ended.done():
                _native.kill(self._pidfd)

    def end(self) -> None:
        """End the process and everything it started, and wait until it is gone."""
        self.kill()
        self._await_end()

    def close(self) -> None:
        """Kill the worker and everything it started, and close its descriptors."""
        self.kill()
        self.channel.close()
        # A concurrent `kill` (by the memory watch) must not use a descriptor number that has been reused.
        with self._handles:
            handles = self._pidfd, self._output_fd
            self._pidfd = self._output_fd = -1
        for fd in handles:
            if fd >= 0:
                os.close(fd)


def _read(pid: int, name: str) -> bytes:
    """Return what the kernel says about a process; OSError once it is gone.

    Each request to a candidate's worker asks four times, and `Path.read_text` takes three times as long.
    """
    with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:  # noqa: PTH123
        return file.read()


def _descendants(pid: int) -> Iterator[int]:
    """Yield the processes below a process that live now."""
    try:
        children = [
            int(child)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text(encoding="ascii").split()
        ]
    except OSError:
        return
    for child in children:
        yield child
        yield from _descendants(child)


def _delay_of(pid: int) -> float:
    """Return the seconds in which a process's first thread was ready to run but others had the processors."""
    try:
        return int(_read(pid, "schedstat").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def _has_ended(pidfd: int) -> bool:
    if pidfd < 0:
        return False
    waiting = select.poll()
    waiting.register(pidfd, select.POLLIN)
    return bool(waiting.poll(0))
