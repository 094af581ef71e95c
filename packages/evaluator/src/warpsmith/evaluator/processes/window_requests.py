"""Windows in which a judge may time if its device has other users: they pause only while one is open."""

import threading
import time
from collections.abc import Callable
from typing import Final

WAIT_S: Final = 900.0
"""How long a timing waits for a window: longer than the opener of windows may take to say that there is none."""
JOIN_S: Final = 1.0
"""How long after its opening a window admits timings that were not waiting for it."""

Interval = tuple[float, float]
"""Start and end by `time.monotonic`, which all processes of a machine share."""


class NoWindowError(Exception):
    """A timing got no window, or took longer than its window lasted."""


class _Wait:
    """A timing that waits for a window.

    Attributes:
        until: the end of the window that admits it; None before that.
        refusal: why there is no window; empty if there was no refusal.
    """

    def __init__(self) -> None:
        self.until: float | None = None
        self.refusal = ""


class RequestedWindows:
    """Asks for windows, and admits timings to them; called by the threads of a judge.

    A window admits every timing that waits for it, and for a moment later ones. It ends when all of them have left. A
    timing that is still running at the window's deadline is discarded: others may use the device again.

    Args:
        ask: asks for a window for this many timings.
        end: says that a window has ended, and when the device was used alone in it.
    """

    def __init__(self, ask: Callable[[int], None], end: Callable[[list[Interval]], None]) -> None:
        self._ask, self._end = ask, end
        self._state = threading.Condition()
        self._waiting: list[_Wait] = []
        self._inside = 0
        self._until = self._joins_until = 0.0
        self._timed: list[Interval] = []

    def enter(self) -> float:
        """Wait for a window; return its deadline by `time.monotonic`. Call `leave` afterwards.

        Raises:
            NoWindowError: there is none, or none came in time.
        """
        wait = _Wait()
        with self._state:
            if self._inside and time.monotonic() < self._joins_until:
                self._inside += 1
                return self._until
            self._waiting.append(wait)
            # An open window asks for the next one when it ends.
            if not self._inside:
                self._ask(len(self._waiting))
            self._state.wait_for(lambda: wait.until is not None or wait.refusal, WAIT_S)
            if wait.until is not None:
                return wait.until
            if not wait.refusal:
                self._waiting.remove(wait)
            raise NoWindowError(wait.refusal or f"no window to time in was opened within {WAIT_S:g} s")

    def leave(self, timed: Interval | None) -> None:
        """End this thread's part of a window; `timed` is when it used the device alone, None if it did not."""
        with self._state:
            self._inside -= 1
            if timed is not None:
                self._timed.append(timed)
            if self._inside:
                return
            timed_now, self._timed = self._timed, []
            self._end(timed_now)
            if self._waiting:
                self._ask(len(self._waiting))

    def opened(self, until: float) -> None:
        """Admit the timings that wait, until `until` by `time.monotonic`."""
        with self._state:
            if not self._waiting:
                self._end([])
                return
            self._until, self._joins_until = until, min(until, time.monotonic() + JOIN_S)
            self._inside = len(self._waiting)
            for wait in self._waiting:
                wait.until = until
            self._waiting.clear()
            self._state.notify_all()

    def refused(self, reason: str) -> None:
        """Fail the timings that wait."""
        with self._state:
            for wait in self._waiting:
                wait.refusal = reason
            self._waiting.clear()
            self._state.notify_all()


def check_in_time(until: float) -> None:
    """Reject a timing that begins or ends after its window.

    Raises:
        NoWindowError: it does.
    """
    late = time.monotonic() - until
    if late > 0:
        raise NoWindowError(
            f"its window had ended {late:.1f} s before it was done, so others may have used the device meanwhile"
        )
