"""The lease of a device: shared by threads, or held by one alone to time."""

import contextlib
import threading
import time
from collections.abc import Iterator

from warpsmith.evaluator.processes.phases import PhaseClock
from warpsmith.evaluator.processes.window_requests import Interval, RequestedWindows, check_in_time


class Lease:
    """Lets many threads share a device, or one use it alone; a thread that waits for that precedes later sharers.

    A thread that holds it, in either mode, can request to share it again, and can release it for a while.

    The start of a process on the device (`starting`) shares it too, for longer than any other use. A thread that waits
    to use the device alone waits for starts under way, and meanwhile others still share it: they lose no time, and it
    would not get the device sooner. While a thread waits, a start begins only beside one under way, and only until there
    were as many as take little longer together than one.

    Args:
        clock: counts the time spent waiting.
        windows: where other processes use the device too: the windows in which they do not. A thread uses the device
            alone only in one of these.
        starts_together: how many starts may join although a thread waits to use the device alone.
    """

    def __init__(
        self, clock: PhaseClock | None = None, windows: RequestedWindows | None = None, starts_together: int = 1
    ) -> None:
        self._clock = clock or PhaseClock()
        self.windows = windows
        self._state = threading.Condition()
        self._own = threading.local()
        self._sharing = 0
        self._starting = 0
        self._joined = 0
        self._starts_together = starts_together
        self._alone = False
        self._wanted = 0

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Share the device with other threads."""
        if self.held_here():
            yield
            return
        self._begin_sharing()
        try:
            yield
        finally:
            self._end_sharing()

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """Share the device while a process starts on it, in a thread that holds no lease."""
        self._begin_starting()
        try:
            yield
        finally:
            with self._state:
                self._starting -= 1
                if not self._starting:
                    self._joined = 0
                self._state.notify_all()

    def _begin_starting(self) -> None:
        with self._clock.phase("lease"), self._state:
            self._state.wait_for(lambda: not self._alone and (not self._wanted or self._may_join()))
            self._starting += 1
            self._joined += 1

    def _may_join(self) -> bool:
        """Whether another start may begin beside those under way."""
        return 0 < self._joined < self._starts_together

    @contextlib.contextmanager
    def released(self) -> Iterator[None]:
        """Release a shared lease while this thread waits for something that needs no device."""
        if self.held_here() != "shared":
            yield
            return
        self._end_sharing()
        try:
            yield
        finally:
            self._begin_sharing()

    def give_way(self) -> None:
        """Yield the device to a thread that waits to use it alone; only if this thread has no work in progress on it.

        That thread thus waits for one step of each sharer, not for whole trials.
        """
        # Read without the lock: whoever is missed now is seen at the next step.
        if self._wanted and not self._starting:
            with self.released():
                pass

    def _begin_sharing(self) -> None:
        with self._clock.phase("lease"), self._state:
            self._state.wait_for(lambda: not self._alone and (not self._wanted or self._starting > 0))
            self._sharing += 1
        self._own.holds = "shared"

    def _end_sharing(self) -> None:
        self._own.holds = ""
        with self._state:
            self._sharing -= 1
            self._state.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Use the device alone; RuntimeError if this thread already holds it, since it would wait for itself.

        Raises:
            NoWindowError: other processes use the device, and did not stand still until the end.
        """
        if self.held_here():
            raise RuntimeError("this thread shares the device already")
        if self.windows is None:
            with self._exclusively():
                yield
            return
        # Before the other threads are stopped: they go on while the other processes do.
        with self._clock.phase("lease"):
            until = self.windows.enter()
        timed: Interval | None = None
        try:
            with self._exclusively():
                check_in_time(until)
                began = time.monotonic()
                yield
                timed = began, time.monotonic()
                check_in_time(until)
        finally:
            self.windows.leave(timed)

    @contextlib.contextmanager
    def _exclusively(self) -> Iterator[None]:
        with self._clock.phase("lease"), self._state:
            self._wanted += 1
            try:
                self._state.wait_for(lambda: not (self._alone or self._sharing or self._starting))
            finally:
                self._wanted -= 1
                self._state.notify_all()
            self._alone = True
        self._own.holds = "alone"
        try:
            yield
        finally:
            self._own.holds = ""
            with self._state:
                self._alone = False
                self._state.notify_all()

    def held_here(self) -> str:
        """Return how this thread holds it: `shared`, `alone`, or `` if not at all."""
        return getattr(self._own, "holds", "")
