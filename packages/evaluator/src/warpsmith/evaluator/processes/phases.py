"""Measures the phases of an evaluation: each second counts for the innermost phase that its thread is in."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, Final, Generic, Literal, ParamSpec, Protocol, TypeVar, get_args

Phase = Literal["workers", "lease", "stall", "correctness", "mapping", "timing", "baselines"]
PHASES: Final[tuple[Phase, ...]] = get_args(Phase)

N = TypeVar("N", bound=str)


class _Own(threading.local, Generic[N]):
    """Per thread: seconds spent by phase, the phases that it is in, and the time up to which seconds were counted."""

    def __init__(self, names: Sequence[N]) -> None:
        self.spent: dict[N, float] = dict.fromkeys(names, 0.0)
        self.entered: list[N] = []
        self.counted_to = 0.0


class NestedClock(Generic[N]):
    """Counts seconds by phase, per thread: one thread conducts an evaluation.

    Args:
        names: of the phases.
    """

    def __init__(self, names: Sequence[N]) -> None:
        self._names = names
        self._own = _Own(names)

    @contextmanager
    def phase(self, name: N) -> Iterator[None]:
        """Count the time in this context for `name`, except nested phases."""
        self._count()
        self._own.entered.append(name)
        try:
            yield
        finally:
            self._count()
            self._own.entered.pop()

    def take(self) -> dict[N, float]:
        """Return this thread's seconds by phase since the last call; the current phase continues."""
        self._count()
        spent, self._own.spent = self._own.spent, dict.fromkeys(self._names, 0.0)
        return spent

    def _count(self) -> None:
        now = time.monotonic()
        if self._own.entered:
            self._own.spent[self._own.entered[-1]] += now - self._own.counted_to
        self._own.counted_to = now


class PhaseClock(NestedClock[Phase]):
    """Counts the phases of an evaluation."""

    def __init__(self) -> None:
        super().__init__(PHASES)


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
    """Decorate a method of an object with a `machine`: its time counts towards a phase."""

    def of(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
        @wraps(method)
        def counted(self: S, /, *arguments: P.args, **named: P.kwargs) -> R:
            with self.machine.clock.phase(name):
                return method(self, *arguments, **named)

        return counted

    return of
