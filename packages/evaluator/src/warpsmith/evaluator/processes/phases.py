"""Measures the phases of an evaluation: each second counts for the innermost phase that its thread is in."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, Final, Literal, ParamSpec, Protocol, TypeVar, get_args

Phase = Literal["workers", "lease", "stall", "correctness", "mapping", "timing", "baselines"]
PHASES: Final[tuple[Phase, ...]] = get_args(Phase)


class _Own(threading.local):
    """Per thread: seconds spent by phase, the phases that it is in, and the time up to which seconds were counted."""

    def __init__(self) -> None:
        self.spent: dict[Phase, float] = dict.fromkeys(PHASES, 0.0)
        self.entered: list[Phase] = []
        self.counted_to = 0.0


class PhaseClock:
    """Counts seconds by phase, per thread: one thread conducts an evaluation."""

    def __init__(self) -> None:
        self._own = _Own()

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        """Count the time in this context for `name`, except nested phases."""
        self._count()
        self._own.entered.append(name)
        try:
            yield
        finally:
            self._count()
            self._own.entered.pop()

    def take(self) -> dict[Phase, float]:
        """Return the seconds of this thread by phase since the last call; the current phase continues."""
        self._count()
        spent, self._own.spent = self._own.spent, dict.fromkeys(PHASES, 0.0)
        return spent

    def _count(self) -> None:
        now = time.monotonic()
        if self._own.entered:
            self._own.spent[self._own.entered[-1]] += now - self._own.counted_to
        self._own.counted_to = now


class Clocked(Protocol):
    """An object with a clock: the machine of a judge."""

    clock: PhaseClock


class OnMachine(Protocol):
    """An object that works on a machine."""

    @property
    def machine(self) -> Clocked: ...


S = TypeVar("S", bound=OnMachine)
P = ParamSpec("P")
R = TypeVar("R")


def in_phase(name: Phase) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R]]:
    """Decorate a method of an object with a `machine`: its time counts for a phase."""

    def of(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
        @wraps(method)
        def counted(self: S, /, *arguments: P.args, **named: P.kwargs) -> R:
            with self.machine.clock.phase(name):
                return method(self, *arguments, **named)

        return counted

    return of
