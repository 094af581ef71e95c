"""Pools of workers: each role keeps some ready, so that nobody waits for a start."""

import contextlib
import math
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from warpsmith.evaluator import _native
from warpsmith.evaluator.devices.kinds import Role
from warpsmith.evaluator.errors import JudgeUnavailableError
from warpsmith.evaluator.processes.worker import FORK_TIMEOUT_S, Worker, WorkerStartError, WorkerTimeoutError
from warpsmith.evaluator.system.exhaustion import is_exhaustion, with_advice


class Pool:
    """Keeps workers of one role forked and contained before they are needed.

    Args:
        role: role of the workers.
        size: number of workers kept ready.
        fork: makes a ready worker.
        at_once: number of workers made concurrently.
        grouped: whether to make that many together, as long as half of the pool is ready: useful where concurrent
            starts take little longer than one, and others wait for each.
    """

    def __init__(
        self, role: Role, size: int, fork: Callable[[Role], Worker], at_once: int = 1, *, grouped: bool = False
    ) -> None:
        self.role = role
        self._fork = fork
        self._group = at_once if grouped else 1
        self._least_ready = max(1, size // 2)
        self._held_back = 0
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
            self._held_back += 1
            if self._held_back < self._group and self._ready.qsize() >= self._least_ready:
                return
            due, self._held_back = self._held_back, 0
        self._wanted.release(due)

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
        self._ready.put(_Failed(closed(), math.inf))
        raise closed()

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
        self._ready.put(_Failed(closed(), math.inf))


@dataclass(frozen=True)
class _Failed:
    """Stands for a worker that could not be made: why, and when (monotonic clock)."""

    error: BaseException
    at: float


def _as_start_error(error: BaseException) -> BaseException:
    """Return an error of making a worker; resource exhaustion becomes WorkerStartError, which can be retried."""
    if isinstance(error, OSError | RuntimeError | MemoryError | _native.NativeError) and is_exhaustion(error):
        return WorkerStartError(f"a worker could not be started: {with_advice(error)}")
    return error


def closed() -> JudgeUnavailableError:
    return JudgeUnavailableError("The pool of workers is closed.", "Start a new judge; this one is closed.")
