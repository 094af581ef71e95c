"""What one judge runs on: its device with the lease, its zygotes, and a pool of workers for each role."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Final

from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.correctness import compare
from warpsmith.evaluator.devices.base import Device
from warpsmith.evaluator.devices.kinds import Role, ZygoteKind
from warpsmith.evaluator.devices.nvml import SmClock
from warpsmith.evaluator.languages.registry import language_of
from warpsmith.evaluator.processes.device_lock import DeviceLock
from warpsmith.evaluator.processes.lease import Lease
from warpsmith.evaluator.processes.memory_watch import MemoryWatch
from warpsmith.evaluator.processes.phases import PhaseClock
from warpsmith.evaluator.processes.pool import Pool, closed
from warpsmith.evaluator.processes.retries import Retries, RetryPolicy, of, with_retries
from warpsmith.evaluator.processes.window_requests import RequestedWindows
from warpsmith.evaluator.processes.worker import Worker, WorkerDiedError, WorkerStartError
from warpsmith.evaluator.processes.zygote_handle import ZygoteHandle
from warpsmith.evaluator.sandbox import temp_dirs
from warpsmith.evaluator.sandbox.policies import OFF_DEVICE
from warpsmith.evaluator.sandbox.roles import roles_of
from warpsmith.evaluator.system.threads import started_executor
from warpsmith.evaluator.timing.floor import Bandwidth, measure_bandwidth
from warpsmith.evaluator.timing.rates import MATRIX_DTYPES, matrix_rate, memory_rate

ON_DEMAND: Final = frozenset({"baseline"})
"""Roles for which no worker is kept ready: each would hold a context, and is needed once per problem."""
OF_STARTS: Final = RetryPolicy([Retries(2, of(WorkerDiedError, WorkerStartError))])


class Machine:
    """The zygotes and pools of one judge. A zygote that died is restarted at the next fork.

    Args:
        config: of the evaluator.
        windows: given if other processes use the device too; see `Lease`.
    """

    def __init__(self, config: EvaluatorConfig, windows: RequestedWindows | None = None) -> None:
        kind = config.device_kind
        self.device: Device = kind.open()
        config = config.model_copy(update={"target_arch": self.device.target_arch(config.target_arch)})
        self.language = language_of(config.language)
        self._uuid = self.device.uuid
        self.config = config
        self.clock = PhaseClock()
        # Another judge of this user on this device would create contexts and run kernels during a timing.
        self._others = DeviceLock(self._uuid) if kind.times else None
        self.lease = Lease(
            self.clock, windows, kind.workers_at_once, self._others,
            driver_beside=config.driver_beside_timing, settle=self.device.settle,
        )  # fmt: skip
        self._bandwidth: Bandwidth | None = None
        self._memory_rate: float | None = None
        self._matrix_rates: dict[str, float | None] = {}
        self.sm_clock = SmClock(self._uuid)
        self._roles = roles_of(config)
        self._lock = threading.Lock()
        self._numbers = iter(range(1, 1 << 62))
        self._closing = threading.Event()
        temp_dirs.sweep()
        # One more than zygotes: the listener of a new zygote can overlap with that of the old one.
        self._listeners = started_executor(len(self._roles) + 1, "zygote")
        self._zygotes = {kind: ZygoteHandle.start(kind, config, self._uuid) for kind in self._roles}
        for zygote in self._zygotes.values():
            zygote.await_ready(config.start_timeout_s, self._listeners)
        size = config.slots * config.ready_workers
        # A problem's reference starts once, and a context holds half a gigabyte of a device.
        sizes = {"reference": config.slots} if kind.shares_memory else {}
        kept_ready = [role for roles in self._roles.values() for role in roles if role not in ON_DEMAND]
        self.pools = {
            role: Pool(
                role,
                sizes.get(role, size),
                self._fork,
                min(sizes.get(role, size), kind.workers_at_once),
                grouped=role not in OFF_DEVICE,
            )
            for role in kept_ready
        }
        # A driver reserves address space, so no per-process limit bounds its memory.
        self._watch = MemoryWatch(self.workers, config.memory_bytes) if kind.shares_memory else None

    def workers(self) -> list[Worker]:
        """Return the workers of all zygotes, busy and idle."""
        found: list[Worker] = []
        for zygote in self._zygotes.values():
            with zygote.lock:
                found += zygote.workers.values()
        return found

    @property
    def runs_kernels(self) -> bool:
        """Whether kernels of the language run here, interpreted or on a device; otherwise they are only compiled."""
        return self.language.interprets or not self.device.kind.interprets

    def bandwidth(self) -> Bandwidth:
        """Return the write bandwidth of the device, measured at the first call; RuntimeError if it has no clock."""
        if self._bandwidth is None:
            with self.lease.alone():
                self._bandwidth = self._bandwidth or measure_bandwidth(self.device)
        return self._bandwidth

    @contextlib.contextmanager
    def driving(self) -> Iterator[bool]:
        """Let the driver work, like `Lease.driving`; this thread's enqueued work, for any worker, completes first."""
        self.device.settle()
        with self.lease.driving() as must_borrow:
            yield must_borrow

    def memory_rate(self) -> float:
        """Return the fastest of filling, reading and copying memory, in bytes per second; measured at the first call.

        RuntimeError if the device has no clock.
        """
        filled = self.bandwidth().memory
        if self._memory_rate is None:
            with self.lease.alone():
                self._memory_rate = self._memory_rate or max(filled, memory_rate(self.device))
        return self._memory_rate

    def matrix_rate(self, dtype: str) -> float | None:
        """Return the rate of matrix products in operations per second, measured at the first call for a dtype.

        None for a dtype without one; RuntimeError if the device has no clock.
        """
        if dtype not in MATRIX_DTYPES:
            return None
        if dtype not in self._matrix_rates:
            with self.lease.alone():
                if dtype not in self._matrix_rates:
                    self._matrix_rates[dtype] = matrix_rate(self.device, dtype, self.config.precision)
        return self._matrix_rates[dtype]

    def prepare(self) -> None:
        """Compile and measure once what evaluations on a device need, so that the first one is not delayed.

        If other processes use the device too, the first timing measures instead: while they start, they are not paused.
        """
        if self.device.kind.times:
            # Another judge may time.
            with self.lease.shared():
                compare.prepare(self.device.torch_device)
            self.device.release()
            if self.lease.windows is None:
                self.bandwidth()

    def await_first_workers(self) -> None:
        """Wait until each pool has made its first worker; raise the error of a pool that cannot."""
        for pool in self.pools.values():
            pool.await_first()

    def take(self, role: Role, timeout_s: float) -> Worker:
        """Return a ready worker of `role`; retry if a zygote died meanwhile.

        A thread that shares the device releases it while it waits: a worker that starts on the device waits for threads
        that want it alone, and these for this one.
        """
        with self.clock.phase("workers"):
            if role in ON_DEMAND:
                worker = with_retries(lambda: self._fork(role), OF_STARTS)
                worker.mark_taken()
                return worker
            return with_retries(lambda: self._taken(role, timeout_s), OF_STARTS)

    def _taken(self, role: Role, timeout_s: float) -> Worker:
        pool = self.pools[role]
        if role in OFF_DEVICE or self.lease.held_here() in {"", "alone"}:
            return pool.take(timeout_s)
        with self.lease.released():
            return pool.take(timeout_s)

    def _fork(self, role: Role) -> Worker:
        with self._lock:
            number = next(self._numbers)
            zygote = self._running(next(kind for kind, roles in self._roles.items() if role in roles))
        # Creating a context disturbs a timing, which holds the device alone. Some roles create none, and a thread that
        # shares the device may wait for them.
        return zygote.fork(role, number, lambda: self._on_device(role))

    def _on_device(self, role: Role) -> contextlib.AbstractContextManager[None]:
        if role in OFF_DEVICE:
            return contextlib.nullcontext()
        return self.lease.shared() if self.lease.held_here() else self.lease.starting()

    def _running(self, kind: ZygoteKind) -> ZygoteHandle:
        if self._zygotes[kind].dead and not self._closing.is_set():
            self._zygotes[kind].close()
            self._zygotes[kind] = ZygoteHandle.start(kind, self.config, self._uuid)
            self._zygotes[kind].await_ready(self.config.start_timeout_s, self._listeners)
        if self._closing.is_set():
            self._zygotes[kind].close()
            raise closed()
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
        if self._others is not None:
            self._others.close()
