"""A bounded queue in front of the slots: who waits has a place, and who finds none is told when to come again."""

import asyncio
import math
from typing import Final

from warpsmith.evaluator.server.errors import RefusalError

_LONGEST_RETRY_S: Final = 60
_MEMORY: Final = 0.9
"""Weight of the past in the running mean of seconds an evaluation."""


class Place:
    """One evaluation's place: first in the queue, then in a slot. It is left once, however often `leave` is called."""

    def __init__(self, admission: "Admission") -> None:
        self._admission = admission
        self._runs = False
        self._left = False

    async def turn(self) -> None:
        """Wait for a slot; first come, first served."""
        await self._admission.slots.acquire()
        self._runs = True
        self._admission.running += 1

    def leave(self) -> None:
        """Give the place back to whoever waits next."""
        if self._left:
            return
        self._left = True
        self._admission.admitted -= 1
        if self._runs:
            self._admission.running -= 1
            self._admission.slots.release()


class Admission:
    """Counts who is in, and refuses whoever would wait behind more than `queue` others. For one event loop."""

    def __init__(self, slots: int, queue: int) -> None:
        self.slots = asyncio.Semaphore(slots)
        self.size = slots
        self.queue = queue
        self.admitted = 0
        self.running = 0
        self._mean_s = 5.0

    @property
    def waiting(self) -> int:
        """Evaluations that have no slot yet."""
        return self.admitted - self.running

    def admit(self, count: int = 1) -> list[Place]:
        """Return places for `count` evaluations, all or none.

        Raises:
            RefusalError: 429 with a time to come again; 413 where so many never fit.
        """
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
                f"{self.running} evaluations run and {self.waiting} wait; {self.queue} may wait.",
                f"Ask again in {seconds} s, or ask another server.",
                retry_after_s=seconds,
            )
        self.admitted += count
        return [Place(self) for _ in range(count)]

    def took(self, seconds: float) -> None:
        """Learn how long an evaluation held its slot."""
        self._mean_s = _MEMORY * self._mean_s + (1 - _MEMORY) * seconds

    def retry_after_s(self, count: int) -> int:
        """Return about when `count` places will be free, in whole seconds from one to a minute."""
        excess = self.admitted + count - self.size - self.queue
        return max(1, min(_LONGEST_RETRY_S, math.ceil(excess * self._mean_s / self.size)))
