"""A bounded queue in front of the devices: a request gets a place in it, or a refusal that says when to retry."""

import asyncio
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from warpsmith.evaluator.server.errors import RefusalError

_LONGEST_RETRY_S: Final = 60
_MEMORY: Final = 0.9
"""Weight of the past in the running mean of seconds per evaluation."""

LaneState = Literal["open", "restarting", "out"]


@dataclass(eq=False)
class Lane:
    """The capacity and state of one device.

    Attributes:
        number: the device's number.
        slots: concurrent evaluations that it takes.
        running: evaluations that run.
        state: `open` takes evaluations, `restarting` will again, `out` does not until it is reset.
        troubles: consecutive failures of the device itself; lanes with fewer are preferred.
    """

    number: int
    slots: int
    running: int = 0
    state: LaneState = "open"
    troubles: int = 0

    @property
    def free(self) -> bool:
        """Whether an evaluation could begin now."""
        return self.state == "open" and self.running < self.slots


class Place:
    """One evaluation's place: in the queue, then on a device, perhaps in the queue again. Released once."""

    def __init__(self, admission: "Admission") -> None:
        self._admission = admission
        self._lane: Lane | None = None
        self._leaves = False

    async def turn(self, preferred: int | None = None, avoided: Collection[int] = ()) -> Lane:
        """Wait for a device and return its lane; first come, first served.

        Args:
            preferred: number of the device to wait for; another one is used if it is not open.
            avoided: numbers of devices that lost this evaluation.

        Raises:
            RefusalError: 503, no device is left for it.
        """
        self._lane = await self._admission.lane_for(_Waiter(preferred, frozenset(avoided)), again=bool(avoided))
        return self._lane

    def step_back(self) -> None:
        """Release the device for the next waiter; keep the place unless `leave` was called."""
        lane, self._lane = self._lane, None
        if lane is not None:
            self._admission.release(lane)
            if self._leaves:
                self._admission.admitted -= 1

    def leave(self) -> None:
        """Release the place: at once if it is in the queue, else together with the device."""
        if not self._leaves:
            self._leaves = True
            if self._lane is None:
                self._admission.admitted -= 1


class _Waiter:
    """An evaluation in the queue, and the future of its lane."""

    def __init__(self, preferred: int | None, avoided: frozenset[int]) -> None:
        self.preferred = preferred
        self.avoided = avoided
        self.lane: asyncio.Future[Lane] = asyncio.get_running_loop().create_future()

    def among(self, lanes: Sequence[Lane]) -> list[Lane]:
        """Return the lanes that are suitable, open or restarting."""
        usable = [lane for lane in lanes if lane.state != "out" and lane.number not in self.avoided]
        preferred = [lane for lane in usable if lane.number == self.preferred and lane.state == "open"]
        return preferred or usable


class Admission:
    """Counts the evaluations in the server, and refuses those that exceed the queue. For one event loop."""

    def __init__(self, lanes: Sequence[Lane], queue: int) -> None:
        self.lanes = list(lanes)
        self.queue = queue
        self.admitted = 0
        self._waiters: list[_Waiter] = []
        self._mean_s = 5.0

    @property
    def size(self) -> int:
        """Concurrent evaluations of all devices, except those that are out."""
        return sum(lane.slots for lane in self.lanes if lane.state != "out")

    @property
    def running(self) -> int:
        """Evaluations on a device."""
        return sum(lane.running for lane in self.lanes)

    @property
    def waiting(self) -> int:
        """Evaluations that have no device yet."""
        return self.admitted - self.running

    def admit(self, count: int = 1) -> list[Place]:
        """Return places for `count` evaluations, all or none.

        Raises:
            RefusalError: 429 with a time to retry; 413 if so many never fit; 503 if no device is left.
        """
        if not self.size:
            raise no_device()
        room = self.size + self.queue
        if count > room:
            raise RefusalError(
                413,
                "batch_too_large",
                f"A batch of {count} evaluations does not fit a server that holds {room}.",
                f"Send at most {room} at once.",
            )
        if self.admitted + count > room:
            seconds = self.retry_after_s(count)
            raise RefusalError(
                429,
                "overloaded",
                f"{self.running} evaluations run and {self.waiting} wait; at most {self.queue} can wait.",
                f"Try again in {seconds} s, or use another server.",
                retry_after_s=seconds,
            )
        self.admitted += count
        return [Place(self) for _ in range(count)]

    async def lane_for(self, waiter: _Waiter, *, again: bool) -> Lane:
        """Wait for a lane; a waiter that had one before (`again`) goes to the front."""
        self._waiters.insert(0 if again else len(self._waiters), waiter)
        self._hand_out()
        try:
            return await waiter.lane
        except asyncio.CancelledError:
            self._withdraw(waiter)
            raise

    def release(self, lane: Lane) -> None:
        """End one evaluation on a lane."""
        lane.running -= 1
        self._hand_out()

    def set_state(self, lane: Lane, state: LaneState) -> None:
        """Set a lane's state; its waiters move on, or are refused if no lane is left."""
        lane.state = state
        self._hand_out()

    def serves_other_than(self, avoided: Collection[int]) -> bool:
        """Whether a device other than these is open or restarting."""
        return any(lane.state != "out" and lane.number not in avoided for lane in self.lanes)

    def record_duration(self, seconds: float) -> None:
        """Update the mean of seconds that an evaluation holds its slot."""
        self._mean_s = _MEMORY * self._mean_s + (1 - _MEMORY) * seconds

    def retry_after_s(self, count: int) -> int:
        """Estimate when `count` places will be free, in whole seconds from one to a minute."""
        excess = self.admitted + count - self.size - self.queue
        return max(1, min(_LONGEST_RETRY_S, math.ceil(excess * self._mean_s / max(self.size, 1))))

    def _hand_out(self) -> None:
        for waiter in list(self._waiters):
            lanes = waiter.among(self.lanes)
            free = [lane for lane in lanes if lane.free]
            if waiter.lane.cancelled() or free or not lanes:
                self._waiters.remove(waiter)
            if waiter.lane.cancelled():
                continue
            if free:
                _take(waiter, min(free, key=_burden))
            elif not lanes:
                waiter.lane.set_exception(no_device())

    def _withdraw(self, waiter: _Waiter) -> None:
        """Remove a waiter that was cancelled; a lane that it got at the same moment goes to the next."""
        if waiter in self._waiters:
            self._waiters.remove(waiter)
        elif not waiter.lane.cancelled() and waiter.lane.exception() is None:
            self.release(waiter.lane.result())


def _take(waiter: _Waiter, lane: Lane) -> None:
    lane.running += 1
    waiter.lane.set_result(lane)


def _burden(lane: Lane) -> tuple[int, float, int]:
    return lane.troubles, lane.running / lane.slots, lane.number


def no_device() -> RefusalError:
    """Return the refusal of a server whose devices are all out of service."""
    return RefusalError(
        503,
        "no_device",
        "Every device of this server is quarantined.",
        "Use another server; /gpu_status names each cause, and POST /reset_gpu/{id} puts a device back in service.",
        retry_after_s=30,
    )
