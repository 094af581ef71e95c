"""A bounded queue in front of the devices: a request gets a place in it, or a refusal that says when to retry.

Each client has its own queue, and whose turn it is depends on what each has used (`fair_share`): a client that sends
more than the devices can judge delays only itself.
"""

import asyncio
import math
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from warpsmith.evaluator.server.errors import RefusalError
from warpsmith.evaluator.server.fair_share import FairShare

FULL_QUEUES: Final = 16
"""How many full client queues fit: a bound on memory, since every request holds its sources."""
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

    def __init__(self, admission: "Admission", client: str) -> None:
        self._admission = admission
        self._client = client
        self._lane: Lane | None = None
        self._expected_s = 0.0
        self._began = 0.0
        self._leaves = False

    async def turn(self, preferred: int | None = None, avoided: Collection[int] = ()) -> Lane:
        """Wait for a device and return its lane: the client that has used least goes first, then the oldest.

        Args:
            preferred: number of the device to wait for; another one is used if it is not open.
            avoided: numbers of devices that lost this evaluation.

        Raises:
            RefusalError: 503, no device is left for it.
        """
        waiter = _Waiter(self._client, preferred, frozenset(avoided), again=bool(avoided))
        self._lane = await self._admission.lane_for(waiter)
        self._began, self._expected_s = time.monotonic(), waiter.expected_s
        return self._lane

    def step_back(self) -> None:
        """Release the device for the next waiter; keep the place unless `leave` was called."""
        lane, self._lane = self._lane, None
        if lane is not None:
            self._admission.share.end(self._client, self._expected_s, time.monotonic() - self._began)
            self._admission.release(lane)
            if self._leaves:
                self._admission.forget(self._client)

    def leave(self) -> None:
        """Release the place: at once if it is in the queue, otherwise together with the device."""
        if not self._leaves:
            self._leaves = True
            if self._lane is None:
                self._admission.forget(self._client)


class _Waiter:
    """An evaluation in the queue, and the future of its lane.

    Attributes:
        again: it had a device before, which was lost, so it goes first.
        expected_s: what it was expected to take when it got a lane.
    """

    def __init__(self, client: str, preferred: int | None, avoided: frozenset[int], *, again: bool) -> None:
        self.client = client
        self.preferred = preferred
        self.avoided = avoided
        self.again = again
        self.expected_s = 0.0
        self.lane: asyncio.Future[Lane] = asyncio.get_running_loop().create_future()

    def among(self, lanes: Sequence[Lane]) -> list[Lane]:
        """Return the lanes that are suitable, open or restarting."""
        usable = [lane for lane in lanes if lane.state != "out" and lane.number not in self.avoided]
        preferred = [lane for lane in usable if lane.number == self.preferred and lane.state == "open"]
        return preferred or usable


class Admission:
    """Counts the evaluations in the server, and refuses those that exceed the queue. For one event loop.

    Attributes:
        queue: evaluations of one client that can wait.
        admitted: evaluations that wait or run.
        share: what each client has used.
    """

    def __init__(self, lanes: Sequence[Lane], queue: int) -> None:
        self.lanes = list(lanes)
        self.queue = queue
        self.admitted = 0
        self.share = FairShare()
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

    def admit(self, count: int = 1, client: str = "") -> list[Place]:
        """Return places for `count` evaluations of a client, all or nothing.

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
                f"A batch of {count} evaluations does not fit a server that holds {room} of a client.",
                f"Send at most {room} at once.",
            )
        excess = max(
            self.share.count(client) + count - room, self.admitted + count - self.size - FULL_QUEUES * self.queue
        )
        if excess > 0:
            raise self._overloaded(client, excess)
        self.admitted += count
        for _ in range(count):
            self.share.join(client)
        return [Place(self, client) for _ in range(count)]

    def _overloaded(self, client: str, excess: int) -> RefusalError:
        seconds = self.retry_after_s(excess)
        return RefusalError(
            429,
            "overloaded",
            f"{self.running} evaluations run and {self.waiting} wait, {self.share.count(client)} of them this "
            f"client's; at most {self.queue} of one client can wait, and {FULL_QUEUES * self.queue} of all.",
            f"Try again in {seconds} s, or use another server.",
            retry_after_s=seconds,
        )

    def forget(self, client: str) -> None:
        """End the count of one evaluation of a client."""
        self.admitted -= 1
        self.share.leave(client)

    async def lane_for(self, waiter: _Waiter) -> Lane:
        """Wait for a lane."""
        self._waiters.append(waiter)
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

    def retry_after_s(self, excess: int) -> int:
        """Estimate when `excess` more places will be free, in whole seconds from one to a minute."""
        return max(1, min(_LONGEST_RETRY_S, math.ceil(excess * self._mean_s / max(self.size, 1))))

    def _hand_out(self) -> None:
        self._waiters = [waiter for waiter in self._waiters if not waiter.lane.cancelled()]
        for stranded in [waiter for waiter in self._waiters if not waiter.among(self.lanes)]:
            self._waiters.remove(stranded)
            stranded.lane.set_exception(no_device())
        while (waiter := self._next()) is not None:
            self._waiters.remove(waiter)
            waiter.expected_s = self._mean_s
            self.share.begin(waiter.client, waiter.expected_s)
            _take(waiter, min(_free(waiter.among(self.lanes)), key=_burden))

    def _next(self) -> _Waiter | None:
        """Return whose turn it is, of those for whom a lane is free."""
        ready = [waiter for waiter in self._waiters if _free(waiter.among(self.lanes))]
        again = next((waiter for waiter in ready if waiter.again), None)
        if again is not None or not ready:
            return again
        client = self.share.next_of(waiter.client for waiter in ready)
        return next(waiter for waiter in ready if waiter.client == client)

    def _withdraw(self, waiter: _Waiter) -> None:
        """Remove a waiter that was cancelled; a lane that it got at the same moment goes to the next."""
        if waiter in self._waiters:
            self._waiters.remove(waiter)
        elif not waiter.lane.cancelled() and waiter.lane.exception() is None:
            self.share.end(waiter.client, waiter.expected_s, 0.0)
            self.release(waiter.lane.result())


def _free(lanes: Sequence[Lane]) -> list[Lane]:
    return [lane for lane in lanes if lane.free]


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
