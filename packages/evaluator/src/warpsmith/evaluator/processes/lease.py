"""The lease of a device: shared by threads, or held by one alone for timing."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, Literal, get_args

from warpsmith.evaluator.processes.device_lock import DeviceLock
from warpsmith.evaluator.processes.phases import NestedClock, PhaseClock
from warpsmith.evaluator.processes.window_requests import Interval, RequestedWindows, check_in_time

MOST_IN_A_ROW: Final = 8
"""How many threads of one judge have the device alone in a row before other judges, and sharers, get a turn."""

Use = Literal["alone", "alone_wait", "shared", "shared_wait", "driver", "driver_wait", "without"]
"""How a thread has the device, or what it waits for; `without`: in the middle of a use, having released it."""
USES: Final[tuple[Use, ...]] = get_args(Use)


class Lease:
    """Lets many threads share a device, or one use it alone; a thread waiting to be alone precedes later sharers.

    A thread that holds it, in either mode, can request to share it again, and can release it for a while.

    The start of a process on the device (`starting`) shares it too, for longer than any other use. A thread that wants
    the device alone waits for starts in progress, and meanwhile others still share it: they lose no time, and it would
    not get the device sooner. While a thread waits, a start begins only alongside one in progress, and only up to the
    number that together take little longer than one.

    The driver's own work (`driving`) takes long too, and runs nothing on the device. With `driver_beside` it continues
    alongside a thread that is alone; otherwise it is waited for like a start.

    Args:
        clock: counts the time spent waiting.
        windows: if other processes use the device too: the windows in which they do not. A thread uses the device alone
            only in one of these.
        starts_together: how many starts may join while a thread waits to use the device alone.
        others: if other judges may use the device too: their lock on it.
        driver_beside: whether the driver may work alongside a thread that is alone.
        settle: waits until everything enqueued here is complete; called before a thread gives up the device, so that
            none of it overlaps with the next.

    Attributes:
        uses: counts each thread's time by its use of the device.
    """

    def __init__(
        self,
        clock: PhaseClock | None = None,
        windows: RequestedWindows | None = None,
        starts_together: int = 1,
        others: DeviceLock | None = None,
        *,
        driver_beside: bool = False,
        settle: Callable[[], None] = lambda: None,
    ) -> None:
        self._clock = clock or PhaseClock()
        self.uses: NestedClock[Use] = NestedClock(USES)
        self.windows = windows
        self._others = others
        self._driver_beside = driver_beside
        self._settle = settle
        self._state = threading.Condition()
        self._own = threading.local()
        self._sharing = 0
        self._driving = 0
        self._starting = 0
        self._joined = 0
        self._starts_together = starts_together
        self._alone = False
        self._wanted = 0
        # Sharers let the next one through: no start is in progress any more, here or in another judge.
        self._drains = False
        self._has_next = False
        # How many have had the device alone in a row without leaving it to other judges.
        self._in_a_row = 0
        # Threads that wait to share it or for the driver, and how many of them the next exclusive one must let in
        # first.
        self._queued = 0
        self._owed = 0

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Share the device with other threads."""
        if self.held_here():
            yield
            return
        self._begin_sharing()
        try:
            with self.uses.phase("shared"):
                yield
        finally:
            self._end_sharing()

    @contextlib.contextmanager
    def driving(self) -> Iterator[bool]:
        """Let the driver work: allocate and map memory, load code, capture graphs. A shared lease is released.

        Code inside must enqueue nothing, except in `shared`, if this yields True. If it yields False, nobody is alone
        meanwhile, and anything may be enqueued.
        """
        held = self.held_here()
        if held in {"alone", "driving"}:
            yield False
            return
        try:
            if held:
                self._end_sharing()
            if self._driver_beside:
                with self.uses.phase("driver"):
                    yield True
            else:
                self._begin_driving()
                try:
                    with self.uses.phase("driver"):
                        yield False
                finally:
                    self._end_driving()
        finally:
            if held:
                self._begin_sharing()

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
                self._end_longer_uses()

    def _end_longer_uses(self) -> None:
        """Let other judges be alone if they wait for nothing here any more; the caller holds the state."""
        if self._others is not None and not (self._starting or self._driving):
            self._others.end_starts()
        self._state.notify_all()

    def _begin_starting(self) -> None:
        with self._clock.phase("lease"), self.uses.phase("shared_wait"):
            while not self._try_starting():
                assert self._others is not None
                self._others.await_no_wanter()

    def _try_starting(self) -> bool:
        """Wait until this judge lets a start begin, and begin it unless another judge wants the device alone."""
        with self._state:
            self._state.wait_for(lambda: not self._alone and (not self._wanted or self._may_join()))
            if self._others is not None and not self._others.try_start(joins=self._may_join()):
                return False
            self._starting += 1
            self._joined += 1
            return True

    def _may_join(self) -> bool:
        """Whether another start may begin alongside those in progress."""
        return 0 < self._joined < self._starts_together

    def _begin_driving(self) -> None:
        with self._clock.phase("lease"), self.uses.phase("driver_wait"):
            while not self._try_driving():
                assert self._others is not None
                self._others.await_no_wanter()
        self._own.holds = "driving"

    def _try_driving(self) -> bool:
        """Wait until this judge lets the driver work, and let it unless another judge wants the device alone.

        During a start it may, since that is waited for in any case.
        """
        with self._state:
            self._queue(lambda: self._is_open() and bool(not self._wanted or self._starting or self._owed))
            if self._others is not None and not self._others.try_start(joins=self._starting > 0):
                return False
            self._driving += 1
            return True

    def _end_driving(self) -> None:
        with self._giving_up():
            self._driving -= 1
            self._end_longer_uses()

    @contextlib.contextmanager
    def _giving_up(self) -> Iterator[None]:
        """Change the state once everything this thread enqueued is complete, so that it holds nothing."""
        try:
            self._settle()
        finally:
            self._own.holds = ""
            with self._state:
                yield

    @contextlib.contextmanager
    def released(self) -> Iterator[None]:
        """Release a lease that is not exclusive while this thread waits for something that needs no device."""
        held = self.held_here()
        if held not in {"shared", "driving"}:
            yield
            return
        begin, end = (
            (self._begin_sharing, self._end_sharing) if held == "shared" else (self._begin_driving, self._end_driving)
        )
        try:
            end()
            with self.uses.phase("without"):
                yield
        finally:
            begin()

    def give_way(self) -> None:
        """Yield the device to a thread that waits to use it alone; only if this thread has no work in progress on it.

        So that thread waits for one step of each sharer, not for whole trials.
        """
        # Read without the lock: a thread missed now is seen at the next step.
        if self._drains or (self._others is not None and self.held_here() == "shared" and self._others.is_awaited()):
            with self.released():
                pass

    def _begin_sharing(self) -> None:
        with self._clock.phase("lease"), self.uses.phase("shared_wait"):
            while not self._try_sharing():
                assert self._others is not None
                self._others.await_turn()
        self._own.holds = "shared"

    def _try_sharing(self) -> bool:
        """Wait until nobody here is alone or next, and share unless another judge is."""
        with self._state:
            self._queue(self._is_open)
            if self._others is not None and not self._others.try_share():
                return False
            self._sharing += 1
            return True

    def _is_open(self) -> bool:
        return not (self._alone or self._drains)

    def _queue(self, may_begin: Callable[[], bool]) -> None:
        """Wait until a use may begin, holding the state; after a row of exclusive uses, waiting threads go next."""
        self._queued += 1
        try:
            self._state.wait_for(may_begin)
        finally:
            self._queued -= 1
            if self._owed > self._queued:
                self._owed = self._queued
                self._state.notify_all()

    def _end_sharing(self) -> None:
        with self._giving_up():
            self._sharing -= 1
            if not self._sharing and self._others is not None:
                self._others.end_sharing()
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
        # Before the other threads are stopped: they continue while the other processes do.
        with self._clock.phase("lease"), self.uses.phase("alone_wait"):
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
        with self._clock.phase("lease"), self.uses.phase("alone_wait"):
            self._await_next()
            try:
                self._drain()
            except BaseException:
                self._give_up()
                raise
        self._own.holds = "alone"
        try:
            with self.uses.phase("alone"):
                yield
        finally:
            self._end_alone()

    def _await_next(self) -> None:
        """Wait until no other thread of this judge has the device alone, or is next."""
        with self._state:
            self._wanted += 1
            try:
                self._state.wait_for(lambda: not self._has_next)
            except BaseException:
                self._wanted -= 1
                if not (self._wanted or self._has_next):
                    self._leave()
                self._state.notify_all()
                raise
            self._has_next = True

    def _drain(self) -> None:
        """Wait for starts and the driver, then for sharers, here and in other judges.

        Sharers are let in until no start is left; those that waited for a whole row of exclusive uses come first.
        """
        with self._state:
            self._state.wait_for(lambda: not (self._starting or self._driving or self._owed))
        if self._others is not None and not self._in_a_row:
            self._others.block_starts()
        with self._state:
            self._drains = True
        if self._others is not None:
            self._others.block_uses()
        with self._state:
            self._state.wait_for(lambda: not self._sharing)
        if self._others is not None:
            self._others.await_uses()
        with self._state:
            self._alone = True

    def _end_alone(self) -> None:
        """Leave the device to the next thread that wants it alone, a few times in a row, then to everyone."""
        with self._giving_up():
            self._alone = self._has_next = False
            self._wanted -= 1
            self._in_a_row += 1
            if not self._wanted or self._in_a_row == MOST_IN_A_ROW:
                self._leave()
            self._state.notify_all()

    def _give_up(self) -> None:
        """Leave the device to everyone; what is held of it is unknown, and the next thread starts from scratch."""
        with self._state:
            self._has_next = False
            self._wanted -= 1
            self._leave()
            self._state.notify_all()

    def _leave(self) -> None:
        """Let sharers here and other judges have the device; the caller holds the state."""
        self._in_a_row, self._drains = 0, False
        self._owed = self._queued
        if self._others is not None:
            self._others.end_alone()

    def held_here(self) -> str:
        """Return how this thread holds it: `shared`, `driving`, `alone`, or `` if not at all."""
        return getattr(self._own, "holds", "")
