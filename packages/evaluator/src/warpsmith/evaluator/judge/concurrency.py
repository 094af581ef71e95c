"""Lets evaluations run side by side, or one alone."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Concurrency:
    """Lets evaluations run side by side, or one alone to be judged again.

    An evaluation that runs alone blocks the others for a limited time; then they run alongside it.

    Args:
        beside_others: whether evaluations of other judges, which cannot be blocked or seen, run at the same time.
    """

    def __init__(self, *, beside_others: bool = False) -> None:
        self._beside_others = beside_others
        self._state = threading.Condition()
        self._running = 0
        self._entered = 0
        self._alone = False
        self._held_until = 0.0

    @contextmanager
    def shared(self) -> Iterator[Callable[[], bool]]:
        """Run alongside others; yields a function that returns whether any other evaluation may have run meanwhile."""
        with self._state:
            while (seconds := self._held_for()) > 0:
                self._state.wait(seconds)
            self._running += 1
            self._entered += 1
            already, ticket = self._beside_others or self._running > 1, self._entered
        try:
            yield lambda: already or self._entered > ticket
        finally:
            with self._state:
                self._running -= 1
                self._state.notify_all()

    @contextmanager
    def alone(self, seconds: float) -> Iterator[None]:
        """Run alone: wait at most `seconds` for the others to finish, then block them for at most as long."""
        with self._state:
            self._state.wait_for(lambda: not self._alone)
            self._alone = True
            self._held_until = time.monotonic() + seconds
            self._state.wait_for(lambda: self._running == 0, seconds)
            self._held_until = time.monotonic() + seconds
        try:
            yield
        finally:
            with self._state:
                self._alone = False
                self._state.notify_all()

    def _held_for(self) -> float:
        return self._held_until - time.monotonic() if self._alone else 0.0
