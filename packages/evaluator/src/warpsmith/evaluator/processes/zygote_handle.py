"""A zygote as the judge sees it: starts it, lets it fork workers, notices its end and theirs."""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Final

from warpsmith.evaluator import _native
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.devices.kinds import Role, ZygoteKind
from warpsmith.evaluator.errors import IsolationUnavailableError, WireError
from warpsmith.evaluator.ipc import codec, messages
from warpsmith.evaluator.ipc.messages import Kind, Message
from warpsmith.evaluator.languages.registry import language_of
from warpsmith.evaluator.processes.worker import FORK_TIMEOUT_S, Worker, WorkerDiedError, WorkerStartError
from warpsmith.evaluator.sandbox import temp_dirs, torch_compile
from warpsmith.evaluator.sandbox.policies import LANG, SINGLE_THREADED
from warpsmith.evaluator.system import stderr
from warpsmith.evaluator.system.exhaustion import EXHAUSTED

GRACE_S: Final = 5.0
KILLED_S: Final = 10.0
"""Longest time a killed process takes to exit, unless a driver holds it."""
NO_LAYERS: Final = frozenset({"scratch", "start"})
"""Names that a zygote sends instead of a containment layer if its folder or its own start failed."""


Leased = Callable[[], contextlib.AbstractContextManager[None]]
"""Leases the device in a context."""


@dataclass
class _Pending:
    worker: Worker
    started: Future[Worker]


@dataclass
class ZygoteHandle:
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
    def start(kind: ZygoteKind, config: EvaluatorConfig, uuid: str) -> "ZygoteHandle":
        """Start a zygote process, for the GPU with that UUID; call `await_ready` before requesting workers."""
        channel, fd = _native.Channel.pair()
        environment = SINGLE_THREADED | LANG | {"PATH": "/usr/bin:/bin"}
        environment |= language_of(config.language).environment(interpreting=kind == "interpreting")
        if config.compiled_baselines and config.device_kind.times:
            environment |= torch_compile.environment()
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
        zygote = ZygoteHandle(kind, process, channel, folder)
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

    def fork(self, role: Role, number: int, on_device: Leased = contextlib.nullcontext) -> Worker:
        """Return a worker that has reported ready.

        Args:
            role: of the worker.
            number: of the worker.
            on_device: returns the context in which it opens its device; earlier steps need none.

        Raises:
            IsolationUnavailableError: a containment layer is unavailable.
            WorkerStartError: the machine lacks resources for it.
            WorkerDiedError, WorkerTimeoutError: the worker or the zygote ended or hung at its start.
        """
        channel, fd = _native.Channel.pair()
        try:
            return self._forked(role, number, channel, fd, on_device)
        except BaseException:
            # A worker that starts nevertheless finds its channel closed and exits.
            channel.close()
            raise

    def _forked(self, role: Role, number: int, channel: _native.Channel, fd: int, on_device: Leased) -> Worker:
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
            self._await_worker(worker, on_device)
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

    def _await_worker(self, worker: Worker, on_device: Leased) -> None:
        """Wait until a forked worker is ready, and let it open its device meanwhile if it has one."""
        message = worker.receive(FORK_TIMEOUT_S)
        if message.kind is Kind.PREPARED:
            with on_device():
                worker.send(Kind.OPEN_DEVICE, {}, [], FORK_TIMEOUT_S)
                message = worker.receive(FORK_TIMEOUT_S)
        if message.kind is not Kind.READY:
            raise WorkerStartError(f"the {worker.role} worker began with {message.kind.name}; READY was expected")

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
