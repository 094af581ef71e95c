"""The judge's side of zygotes and workers: starts them, keeps some ready, notices their deaths."""

import contextlib
import math
import os
import queue
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn

from warpsmith.evaluator import _native
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.correctness import compare
from warpsmith.evaluator.devices.base import Device
from warpsmith.evaluator.devices.kinds import Role, ZygoteKind
from warpsmith.evaluator.errors import IsolationUnavailableError, JudgeUnavailableError, WireError
from warpsmith.evaluator.ipc import codec, messages
from warpsmith.evaluator.ipc.messages import Kind, Message
from warpsmith.evaluator.languages.registry import language_of
from warpsmith.evaluator.processes.lease import Lease
from warpsmith.evaluator.processes.memory_watch import MemoryWatch
from warpsmith.evaluator.processes.phases import PhaseClock
from warpsmith.evaluator.processes.retries import Retries, RetryPolicy, of, with_retries
from warpsmith.evaluator.processes.timing_windows import RequestedWindows
from warpsmith.evaluator.sandbox import temp_dirs
from warpsmith.evaluator.sandbox.policies import LANG, OFF_DEVICE, SINGLE_THREADED
from warpsmith.evaluator.sandbox.roles import EXHAUSTED_CODE, roles_of
from warpsmith.evaluator.system import stderr
from warpsmith.evaluator.system.exhaustion import EXHAUSTED, is_exhaustion, with_advice
from warpsmith.evaluator.system.threads import started_executor
from warpsmith.evaluator.timing.floor import Bandwidth, measure_bandwidth

OUTPUT_TAIL_BYTES: Final = 2000
FORK_TIMEOUT_S: Final = 30.0
GRACE_S: Final = 5.0
KILLED_S: Final = 10.0
"""Longest time a killed process takes to exit, unless a driver holds it."""
NO_LAYERS: Final = frozenset({"scratch", "start"})
"""Names that a zygote sends instead of a containment layer if its folder or its own start failed."""


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
        # Whether it ended before its first use, so that no foreign code can have ended it.
        self.at_start = False

    @property
    def lost_with_zygote(self) -> bool:
        """Whether the worker ended because the process that forks workers did."""
        return self.ended is None

    @property
    def killed(self) -> bool:
        """Whether the worker was killed from outside, as the kernel does if the machine is out of memory."""
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
            status = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        # The program's name, which can contain anything, ends at the last bracket; fields 14 to 17 are times.
        ticks = sum(int(value) for value in status.rpartition(")")[2].split()[11:15])
        return ticks / os.sysconf("SC_CLK_TCK")

    def used_bytes(self) -> int:
        """Return the worker's peak memory since it was taken, or 0 once it is gone."""
        return max(self._peak_bytes() - self._peak_when_taken, 0)

    def _peak_bytes(self) -> int:
        try:
            status = Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return 0
        found = re.search(r"^VmHWM:\s+(\d+) kB$", status, flags=re.MULTILINE)
        return int(found[1]) << 10 if found else 0

    def mark_taken(self) -> None:
        """Measure starvation and memory from now on: the worker's start does not count for its user."""
        self.in_use = True
        self._delay_when_taken = self.run_delay()
        self._peak_when_taken = self._peak_bytes()

    def run_delay(self) -> float | None:
        """Return the seconds in which the worker's first thread was ready to run but others had the processors.

        The CPU time of its other threads is subtracted, so that a worker cannot starve itself. None if the kernel does
        not account for it (no CONFIG_SCHED_INFO) or the worker is gone.
        """
        try:
            ran, delayed, _ = map(int, Path(f"/proc/{self.pid}/schedstat").read_text(encoding="ascii").split())
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


def _has_ended(pidfd: int) -> bool:
    if pidfd < 0:
        return False
    waiting = select.poll()
    waiting.register(pidfd, select.POLLIN)
    return bool(waiting.poll(0))


@dataclass
class _Pending:
    worker: Worker
    started: Future[Worker]


@dataclass
class Zygote:
    """One running zygote process: it forks workers on request, and reports how each ended."""

    kind: ZygoteKind
    process: subprocess.Popen[bytes]
    channel: _native.Channel
    folder: temp_dirs.Folder
    lock: threading.Lock = field(default_factory=threading.Lock)
    pending: dict[int, _Pending] = field(default_factory=dict)
    workers: dict[int, Worker] = field(default_factory=dict)
    dead: bool = False
    listener: Future[None] | None = None
    closing: threading.Lock = field(default_factory=threading.Lock)
    closed: bool = False

    @staticmethod
    def start(kind: ZygoteKind, config: EvaluatorConfig, uuid: str) -> "Zygote":
        """Start a zygote process, for the GPU with that UUID; call `await_ready` before requesting workers."""
        channel, fd = _native.Channel.pair()
        environment = SINGLE_THREADED | LANG | {"PATH": "/usr/bin:/bin"}
        environment |= language_of(config.language).environment(interpreting=kind == "interpreting")
        environment |= {name: os.environ[name] for name in ("TMPDIR",) if name in os.environ}
        environment |= config.device_kind.environment(config.gpu)
        # Made here, so that it is removed even if the zygote cannot do so.
        folder = temp_dirs.make()
        environment["TORCHINDUCTOR_CACHE_DIR"] = str(folder.path / "inductor")
        command = [sys.executable, "-I", "-m", "warpsmith.evaluator.workers.zygote", str(fd), kind, str(folder.path)]
        inherited = [fd, folder.lock_fd]
        try:
            process = subprocess.Popen(
                command, env=environment, pass_fds=inherited, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
        except BaseException:
            folder.remove()
            raise
        finally:
            os.close(fd)
        zygote = Zygote(kind, process, channel, folder)
        try:
            fields = {"config": config.model_dump_json(), "gpu": uuid}
            messages.send(channel, Kind.CONFIGURE, fields, timeout_s=FORK_TIMEOUT_S)
        except BaseException:
            zygote.close()
            raise
        return zygote

    def await_ready(self, timeout_s: float, threads: ThreadPoolExecutor) -> None:
        """Wait until the zygote has warmed up; close it if it does not.

        Args:
            timeout_s: how long that may take.
            threads: running threads, one of which then listens. A thread started while memory is short may never signal
                its start.

        Raises:
            IsolationUnavailableError: a required containment layer is unavailable.
            WorkerStartError: it failed for another reason.
        """
        try:
            self._check_ready(messages.receive(self.channel, timeout_s))
            self.listener = threads.submit(self._listen)
        except BaseException as error:
            self.dead = True
            self.close()
            if isinstance(error, _native.NativeError | WireError | RuntimeError):
                raise WorkerStartError(
                    f"the {self.kind} zygote did not start within {timeout_s:g} s "
                    f"(exit code {self.process.poll()}): {error}"
                ) from error
            raise

    def _check_ready(self, message: Message) -> None:
        if message.kind is Kind.FORK_FAILED:
            raise _start_error(message.fields)
        if message.kind is not Kind.READY:
            raise WorkerStartError(f"the {self.kind} zygote began with {message.kind.name}; READY was expected")

    def fork(self, role: Role, number: int) -> Worker:
        """Return a worker that has reported ready.

        Raises:
            IsolationUnavailableError: a containment layer is unavailable.
            WorkerStartError: the machine lacks resources for it.
            WorkerDiedError, WorkerTimeoutError: the worker or the zygote ended or hung at its start.
        """
        channel, fd = _native.Channel.pair()
        try:
            return self._forked(role, number, channel, fd)
        except BaseException:
            # A worker that starts nevertheless finds its channel closed and exits.
            channel.close()
            raise

    def _forked(self, role: Role, number: int, channel: _native.Channel, fd: int) -> Worker:
        worker = Worker(role, number, channel)
        pending = _Pending(worker, Future())
        with self.lock:
            self.pending[number] = pending
            try:
                messages.send(self.channel, Kind.FORK, {"number": number, "role": role}, [fd], FORK_TIMEOUT_S)
            except _native.NativeError as error:
                del self.pending[number]
                raise WorkerDiedError(role, None) from error
            finally:
                os.close(fd)
        try:
            pending.started.result(timeout=FORK_TIMEOUT_S)
        except TimeoutError:
            raise WorkerStartError(f"the {role} worker was not forked within {FORK_TIMEOUT_S:g} s") from None
        try:
            worker.receive(FORK_TIMEOUT_S)
        except WorkerDiedError as error:
            # Its output is not read anywhere else.
            stderr.report(worker.printed())
            error.at_start = True
            worker.close()
            raise
        except BaseException:
            worker.close()
            raise
        return worker

    def _listen(self) -> None:
        try:
            while True:
                self._handle(messages.receive(self.channel))
        except _native.PeerClosed:
            self._died()
        except Exception as error:  # noqa: BLE001  (callers that wait for a worker must be woken, whatever failed)
            stderr.report_error(error)
            self._died()

    def _handle(self, message: Message) -> None:
        fields = message.fields
        number = fields.integer("number")
        match message.kind:
            case Kind.FORKED:
                with self.lock:
                    pending = self.pending.pop(number)
                    self.workers[number] = pending.worker
                pending.worker.started(fields.integer("pid"), fields.text("tier"), *message.fds)
                pending.started.set_result(pending.worker)
            case Kind.FORK_FAILED:
                with self.lock:
                    pending = self.pending.pop(number)
                pending.started.set_exception(_start_error(fields))
            case Kind.EXITED:
                with self.lock:
                    worker = self.workers.pop(number)
                code, signal = fields.value("code"), fields.value("signal")
                worker.out_of_memory |= fields.flag("out_of_memory")
                worker.ended.set_result(_native.Exit(code, signal))  # type: ignore[arg-type]

    def _died(self) -> None:
        """Fail all pending requests and end the zygote's workers: no process is left to reap them."""
        with self.lock:
            self.dead = True
            pending, self.pending = self.pending, {}
            workers, self.workers = self.workers, {}
        # Mark all before reporting the first, so that a retry cannot be given another one of them.
        for worker in workers.values():
            worker.orphaned = True
        for request in pending.values():
            request.started.set_exception(WorkerDiedError(request.worker.role, None))
        for worker in workers.values():
            worker.ended.set_result(None)

    def close(self) -> None:
        """Close the channel, so that the zygote kills its workers and ends; kill the zygote if it does not.

        Idempotent and thread-safe: closing a descriptor twice could close one with a reused number.
        """
        with self.closing:
            if self.closed:
                return
            self.closed = True
            self._close()

    def _close(self) -> None:
        messages.hang_up(self.channel)
        if self.listener is not None:
            wait([self.listener], FORK_TIMEOUT_S)
        self.channel.close()
        end(self.process, GRACE_S)
        self.folder.remove()


def _start_error(fields: codec.Fields) -> Exception:
    """Return the error for a zygote's report that it could not start a worker."""
    layer, message = fields.text("layer"), fields.text("message")
    if fields.integer("errno") in EXHAUSTED or layer in NO_LAYERS:
        return WorkerStartError(f"a worker could not be started: {layer}: {message}")
    return IsolationUnavailableError(
        f"A worker could not be contained: {layer}: {message}",
        "Run `warpsmith-evaluator doctor` to see what this machine supports, or accept a weaker tier with --isolation.",
    )


def end(process: "subprocess.Popen[bytes]", grace_s: float) -> None:
    """Wait for a process to end, and kill it after `grace_s`; a process that survives even that is abandoned."""
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(KILLED_S)


class Pool:
    """Keeps workers of one role forked and contained before they are needed.

    Args:
        role: role of the workers.
        size: number of workers kept ready.
        fork: makes a ready worker.
        at_once: number of workers made concurrently.
    """

    def __init__(self, role: Role, size: int, fork: Callable[[Role], Worker], at_once: int = 1) -> None:
        self.role = role
        self._fork = fork
        self._ready: queue.SimpleQueue[Worker | _Failed] = queue.SimpleQueue()
        self._wanted = threading.Semaphore(size)
        self._lock = threading.Lock()
        self._surplus = 0
        self._closed = threading.Event()
        self._threads = [
            threading.Thread(target=self._refill, name=f"{role}-pool-{number}", daemon=True)
            for number in range(at_once)
        ]
        for thread in self._threads:
            thread.start()

    def take(self, timeout_s: float) -> Worker:
        """Return a ready worker; the caller owns it and must close it.

        Raises:
            IsolationUnavailableError: no worker can be contained.
            WorkerStartError, WorkerDiedError, WorkerTimeoutError: none could be made, or none was ready in time.
            JudgeUnavailableError: the pool is closed.
        """
        began = time.monotonic()
        deadline = began + timeout_s
        while True:
            try:
                item = self._ready.get(timeout=max(deadline - time.monotonic(), 0.0))
            except queue.Empty:
                raise WorkerTimeoutError(self.role) from None
            self._order_another()
            if self._closed.is_set():
                self._turn_away(item)
            if isinstance(item, _Failed):
                if item.at >= began:
                    raise item.error
                continue  # an earlier failure: the machine may have recovered since
            if item.alive and item.answers(deadline - time.monotonic()):
                item.mark_taken()
                return item
            item.close()

    def give_back(self, worker: Worker) -> None:
        """Take back a worker that was sent nothing; one fewer is made for it."""
        if self._closed.is_set():
            worker.close()
            return
        with self._lock:
            self._surplus += 1
        self._ready.put(worker)

    def _order_another(self) -> None:
        with self._lock:
            if self._surplus:
                self._surplus -= 1
                return
        self._wanted.release()

    def await_first(self) -> None:
        """Wait for the first worker, so that a machine that cannot make one fails at the start."""
        try:
            item = self._ready.get(timeout=2 * FORK_TIMEOUT_S)
        except queue.Empty:
            raise WorkerTimeoutError(self.role) from None
        if isinstance(item, _Failed):
            raise item.error
        self._ready.put(item)

    def _refill(self) -> None:
        while True:
            self._wanted.acquire()
            if self._closed.is_set():
                return
            try:
                self._ready.put(self._fork(self.role))
            except BaseException as error:  # noqa: BLE001  (raised by `take`; the pool itself must continue)
                self._ready.put(_Failed(_as_start_error(error), time.monotonic()))

    def _turn_away(self, item: "Worker | _Failed") -> NoReturn:
        if isinstance(item, Worker):
            item.close()
        self._ready.put(_Failed(_closed(), math.inf))
        raise _closed()

    def close(self) -> None:
        """Close the ready workers. Each caller that waits in `take` gets JudgeUnavailableError at once."""
        self._closed.set()
        self._wanted.release(len(self._threads))
        for thread in self._threads:
            thread.join(timeout=FORK_TIMEOUT_S)
        with contextlib.suppress(queue.Empty):
            while True:
                item = self._ready.get_nowait()
                if isinstance(item, Worker):
                    item.close()
        self._ready.put(_Failed(_closed(), math.inf))


@dataclass(frozen=True)
class _Failed:
    """Takes the place of a worker that could not be made: why, and when (monotonic clock)."""

    error: BaseException
    at: float


def _as_start_error(error: BaseException) -> BaseException:
    """Return an error of making a worker; resource exhaustion becomes WorkerStartError, which can be retried."""
    if isinstance(error, OSError | RuntimeError | MemoryError | _native.NativeError) and is_exhaustion(error):
        return WorkerStartError(f"a worker could not be started: {with_advice(error)}")
    return error


def _closed() -> JudgeUnavailableError:
    return JudgeUnavailableError("The pool of workers is closed.", "Start a new judge; this one is closed.")


OF_STARTS: Final = RetryPolicy([Retries(2, of(WorkerDiedError, WorkerStartError))])


class Machine:
    """The zygotes and pools of one judge. A zygote that died is restarted at the next fork.

    Args:
        config: of the evaluator.
        windows: where other processes use the device too, see `Lease`.
    """

    def __init__(self, config: EvaluatorConfig, windows: RequestedWindows | None = None) -> None:
        kind = config.device_kind
        self.device: Device = kind.open()
        config = config.model_copy(update={"target_arch": self.device.target_arch(config.target_arch)})
        self.language = language_of(config.language)
        self._uuid = self.device.uuid
        self.config = config
        self.clock = PhaseClock()
        self.lease = Lease(self.clock, windows)
        self._bandwidth: Bandwidth | None = None
        self._roles = roles_of(config)
        self._lock = threading.Lock()
        self._numbers = iter(range(1, 1 << 62))
        self._closing = threading.Event()
        temp_dirs.sweep()
        # One more than zygotes: the listener of a new zygote can overlap with that of the old one.
        self._listeners = started_executor(len(self._roles) + 1, "zygote")
        self._zygotes = {kind: Zygote.start(kind, config, self._uuid) for kind in self._roles}
        for zygote in self._zygotes.values():
            zygote.await_ready(config.start_timeout_s, self._listeners)
        size = config.slots * config.ready_workers
        at_once = min(size, kind.workers_at_once)
        self.pools = {role: Pool(role, size, self._fork, at_once) for roles in self._roles.values() for role in roles}
        # A driver reserves address space, so that no limit of a process's own bounds its memory.
        self._watch = MemoryWatch(self.workers, config.memory_bytes) if kind.shares_memory else None

    def workers(self) -> list[Worker]:
        """Return the workers of all zygotes, busy and idle."""
        found: list[Worker] = []
        for zygote in self._zygotes.values():
            with zygote.lock:
                found += zygote.workers.values()
        return found

    def bandwidth(self) -> Bandwidth:
        """Return the write bandwidth of the device, measured at the first call; RuntimeError if it has no clock."""
        if self._bandwidth is None:
            with self.lease.alone():
                self._bandwidth = self._bandwidth or measure_bandwidth(self.device)
        return self._bandwidth

    def prepare(self) -> None:
        """Compile and measure once what evaluations on a device need, so that the first one is not delayed.

        Where other processes use the device too, the first timing measures: while they start, they are not paused.
        """
        if self.device.kind.times:
            compare.prepare(self.device.torch_device)
            self.device.release()
            if self.lease.windows is None:
                self.bandwidth()

    def await_first_workers(self) -> None:
        """Wait until each pool has made its first worker; raise the error of a pool that cannot."""
        for pool in self.pools.values():
            pool.await_first()

    def take(self, role: Role, timeout_s: float) -> Worker:
        """Return a ready worker of `role`; retry if a zygote died meanwhile."""
        with self.clock.phase("workers"):
            return with_retries(lambda: self.pools[role].take(timeout_s), OF_STARTS)

    def _fork(self, role: Role) -> Worker:
        with self._lock:
            number = next(self._numbers)
            zygote = self._running(next(kind for kind, roles in self._roles.items() if role in roles))
        # Creating a context disturbs a timing, which holds the device alone. Some roles create none, and a thread that
        # shares the device may wait for them.
        with self.lease.shared() if role not in OFF_DEVICE else contextlib.nullcontext():
            return zygote.fork(role, number)

    def _running(self, kind: ZygoteKind) -> Zygote:
        if self._zygotes[kind].dead and not self._closing.is_set():
            self._zygotes[kind].close()
            self._zygotes[kind] = Zygote.start(kind, self.config, self._uuid)
            self._zygotes[kind].await_ready(self.config.start_timeout_s, self._listeners)
        if self._closing.is_set():
            self._zygotes[kind].close()
            raise _closed()
        return self._zygotes[kind]

    def close(self) -> None:
        """End every zygote and with it every worker, busy or idle; callers that wait for one fail at once."""
        self._closing.set()
        if self._watch is not None:
            self._watch.close()
        for zygote in self._zygotes.values():
            zygote.close()
        for pool in self.pools.values():
            pool.close()
        self._listeners.shutdown(wait=False, cancel_futures=True)
