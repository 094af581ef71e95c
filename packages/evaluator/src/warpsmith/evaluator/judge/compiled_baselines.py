"""Times of a problem's reference compiled by torch.compile, relative to the reference as it is.

Each baseline is compiled once per problem, in its own worker, and timed on the evaluation's ring as the candidate was:
the same inputs, alternating with the eager reference, both clocks. The ratio of the two times is kept, so that a
verdict's own time of the eager reference gives the baseline's time under the conditions of that verdict.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import torch

from warpsmith.evaluator import _native
from warpsmith.evaluator.baselines import LASTING, MODES, BaselineName, BaselineNote, NoteKind
from warpsmith.evaluator.errors import EvaluatorError, IsolationUnavailableError
from warpsmith.evaluator.judge.ring import FORM_ATTEMPTS, Ring
from warpsmith.evaluator.processes.machine import Machine
from warpsmith.evaluator.processes.window_requests import NoWindowError
from warpsmith.evaluator.processes.worker import WorkerDiedError, WorkerStartError, WorkerTimeoutError
from warpsmith.evaluator.reference.session import (
    ReferenceFailedError,
    ReferenceFaultError,
    ReferenceSession,
    memory_ran_out,
)
from warpsmith.evaluator.timing import clocks
from warpsmith.evaluator.timing.clocks import Side
from warpsmith.evaluator.verdict import well_formed

MOST_KEPT: Final = 10_000
MOST_ATTEMPTS: Final = 2
"""Attempts at a baseline after which even a failure that may not be its own is kept."""
MAX_MESSAGE: Final = 1000


class OtherFormError(Exception):
    """The problem's inputs have another form in the worker of its baselines."""


FAILURES: Final = (
    ReferenceFailedError,
    ReferenceFaultError,
    WorkerDiedError,
    WorkerStartError,
    WorkerTimeoutError,
    NoWindowError,
    OtherFormError,
    EvaluatorError,
    torch.OutOfMemoryError,
    _native.NativeError,
)


@dataclass(frozen=True)
class BaselineTime:
    """A compiled reference's time: the eager reference's, times `ratio`."""

    ratio: float


Found = BaselineTime | BaselineNote


class CompiledBaselines:
    """Compiles and times baselines, one at a time, and keeps the results by problem.

    Args:
        machine: provides workers, device and lease.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._busy = threading.Lock()
        self._kept: dict[tuple[str, BaselineName], Found] = {}
        self._attempts: Counter[tuple[str, BaselineName]] = Counter()

    def of(
        self, key: str, session: ReferenceSession, ring: Ring, names: Sequence[BaselineName], rng: random.Random
    ) -> dict[BaselineName, Found]:
        """Return the time of each compiled baseline, or why it has none. The device must not be leased by this thread.

        Args:
            key: the problem's.
            session: of the eager reference; its worker has the ring.
            ring: input sets.
            names: baselines that torch.compile makes.
            rng: draws what must be unpredictable.
        """
        # While another thread compiles with the device to itself, nothing else could be timed anyway.
        with self._busy:
            missing = [name for name in names if (key, name) not in self._kept]
            found = dict(_Measuring(self._machine, session, ring, rng).found(missing)) if missing else {}
            for name, one in found.items():
                self._keep((key, name), one)
            return {name: found.get(name) or self._kept[key, name] for name in names}

    def _keep(self, place: tuple[str, BaselineName], found: Found) -> None:
        self._attempts[place] += 1
        lasting = isinstance(found, BaselineTime) or found.kind in LASTING
        if lasting or self._attempts[place] >= MOST_ATTEMPTS:
            self._kept[place] = found
            del self._attempts[place]
        for kept in (self._kept, self._attempts):
            if len(kept) > MOST_KEPT:
                del kept[next(iter(kept))]


@dataclass(frozen=True)
class _Measuring:
    """Measures the baselines of one problem, all in one worker unless one of them ends it."""

    machine: Machine
    session: ReferenceSession
    ring: Ring
    rng: random.Random

    def found(self, names: Sequence[BaselineName]) -> Iterator[tuple[BaselineName, Found]]:
        compiled: ReferenceSession | None = None
        try:
            for name in names:
                try:
                    compiled = compiled or self._started()
                    yield name, self._measured(compiled, name)
                except IsolationUnavailableError:
                    # Nothing may run here, which says nothing about a baseline.
                    raise
                except FAILURES as error:
                    yield name, note_of(name, error)
                    if compiled is not None and not isinstance(error, ReferenceFailedError):
                        compiled.end()
                        compiled = None
        finally:
            if compiled is not None:
                compiled.end()

    def _started(self) -> ReferenceSession:
        """Return a worker that has loaded the problem and made inputs of the ring's form."""
        with self.machine.lease.shared():
            started = ReferenceSession(self.machine, self.session.source, self.session.init_seed, role="baseline")
            try:
                for _ in range(FORM_ATTEMPTS):
                    started.make_inputs(self.rng.getrandbits(48))
                    if started.inputs == self.session.inputs:
                        return started
                raise OtherFormError("the problem's inputs have other shapes at each call")
            except BaseException:
                started.end()
                raise

    def _measured(self, compiled: ReferenceSession, name: BaselineName) -> BaselineTime:
        machine, sets, ask = self.machine, len(self.ring.inputs), self.session.round
        # Tuning compares times, so nothing else may run.
        with machine.lease.alone():
            compiled.tune(MODES[name], machine.config.baseline_timeout_s)
        compiled.ring(sets, self.ring.fds[:1])
        try:
            least_ms, own = machine.bandwidth().least_ms, random.Random(self.rng.getrandbits(64))
            fast, eager = (Side(one, sets, own, least_ms=least_ms) for one in (compiled.round, ask))
            with machine.lease.shared():
                clocks.make_ready(fast, eager)
            with machine.lease.alone():
                timing = clocks.measure(fast, eager, machine.config.timed_trials, _look_at_nothing)
        finally:
            # A worker that is gone has no ring to free; the error that ended it is already being raised.
            with suppress(*FAILURES):
                compiled.ring(0, [])
        return BaselineTime(timing.runtime_ms / timing.reference_ms)


def _look_at_nothing(sets: Sequence[int]) -> None:
    """Check nothing: the outputs are the reference's own."""


_OF_ERROR: Final[tuple[tuple[Callable[[Exception], bool], NoteKind], ...]] = (
    (memory_ran_out, "out_of_memory"),
    (lambda error: isinstance(error, ReferenceFailedError | OtherFormError), "not_compiled"),
    (lambda error: isinstance(error, ReferenceFaultError) and "deadline" in str(error), "timeout"),
    (lambda error: isinstance(error, ReferenceFaultError), "crashed"),
    (lambda error: isinstance(error, WorkerTimeoutError), "timeout"),
    (lambda error: isinstance(error, NoWindowError), "no_window"),
)


def note_of(name: BaselineName, error: Exception) -> BaselineNote:
    """Say why a baseline has no time, with the first lines of the compiler's message."""
    kind: NoteKind = next((kind for holds, kind in _OF_ERROR if holds(error)), "lost")
    return BaselineNote(name, kind, well_formed(str(error)[:MAX_MESSAGE]))
