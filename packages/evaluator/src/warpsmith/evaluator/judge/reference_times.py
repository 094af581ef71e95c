"""Times of a problem's reference without a candidate: as it is, and compiled by torch.compile.

One worker holds all forms, so that a large problem is in memory once. It compiles while other problems are timed, and
borrows the device when the compiler compares times. A form is then timed alone on a ring of input sets, by both clocks
and with as many calls as a reference gets next to a candidate.
"""

import random
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from warpsmith.evaluator.baselines import (
    EAGER,
    MODES,
    BaselineName,
    BaselineNote,
    ReferenceTime,
    ReferenceTimes,
    compiled_ones,
)
from warpsmith.evaluator.devices.kinds import Role
from warpsmith.evaluator.errors import IsolationUnavailableError
from warpsmith.evaluator.ipc.tensor_slots import TensorSlot
from warpsmith.evaluator.judge.compiled_baselines import FAILURES, note_of
from warpsmith.evaluator.judge.ring import make_ring
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.processes.machine import Machine
from warpsmith.evaluator.reference.form import Form
from warpsmith.evaluator.reference.session import ReferenceFailedError, ReferenceSession
from warpsmith.evaluator.timing import clocks
from warpsmith.evaluator.timing.clocks import Figures, Side

NO_ROOM: Final = TensorSlot("float32", (1,), (1,))
"""The smallest room for an output: a reference that is timed alone writes none."""


def times_of(machine: Machine, problem: Problem, names: Sequence[BaselineName]) -> ReferenceTimes:
    """Return the times of a problem's reference. The device must not be leased by this thread.

    Args:
        machine: provides workers, device and lease; its configuration must have the compiled baselines.
        problem: whose reference is timed.
        names: the forms to time, each compiled in turn, and last the reference as it is.

    Raises:
        ReferenceFailedError, ReferenceFaultError, BadProblemError: the reference itself cannot be run or timed.
        WorkerDiedError, WorkerStartError, WorkerTimeoutError: its worker was lost.
    """
    timing = _ReferenceTiming(machine, problem, "baseline" if compiled_ones(names) else "reference")
    try:
        for name in compiled_ones(names):
            timing.add_compiled(name)
        if EAGER in names:
            timing.add_eager()
    finally:
        timing.end()
    return ReferenceTimes({name: timing.times[name] for name in names if name in timing.times}, tuple(timing.notes))


class _ReferenceTiming:
    """The times of one problem's reference, and the worker that has it; one that was lost is replaced."""

    def __init__(self, machine: Machine, problem: Problem, role: Role) -> None:
        self.times: dict[BaselineName, ReferenceTime] = {}
        self.notes: list[BaselineNote] = []
        self._machine = machine
        self._problem = problem
        self._role = role
        self._rng = random.Random(secrets.randbits(64))
        self._session: ReferenceSession | None = None

    def add_compiled(self, name: BaselineName) -> None:
        """Compile and time the reference, or note why it has no time."""
        session = self._loaded()
        started = time.monotonic()
        try:
            output_bytes = session.tune_beside_others(MODES[name], self._machine.config.baseline_timeout_s)
            seconds = time.monotonic() - started
            self.times[name] = _as_time(self._figures(session, output_bytes), seconds)
        except IsolationUnavailableError:
            # Nothing may run here, which says nothing about a baseline.
            raise
        except FAILURES as error:
            self.notes.append(note_of(name, error))
            if not isinstance(error, ReferenceFailedError):
                self.end()

    def add_eager(self) -> None:
        """Time the reference as it is."""
        session = self._loaded()
        output_bytes = session.tune(EAGER, self._machine.config.reference_timeout_s)
        self.times[EAGER] = _as_time(self._figures(session, output_bytes), 0.0)

    def end(self) -> None:
        """End the worker."""
        if self._session is not None:
            self._session.end()
            self._session = None

    def _loaded(self) -> ReferenceSession:
        """Return a worker that has loaded the problem and made inputs."""
        if self._session is None:
            source, seed = self._problem.source, self._rng.getrandbits(48)
            self._session = ReferenceSession(self._machine, source, seed, role=self._role)
            self._session.make_inputs(self._rng.getrandbits(48))
        return self._session

    def _figures(self, session: ReferenceSession, output_bytes: int) -> Figures:
        """Time the form that the worker is set to. The reference writes no output to the ring."""
        machine, rng = self._machine, self._rng
        least_ms = machine.bandwidth().least_ms
        no_room = Form.of([NO_ROOM], machine.config.max_tensor_bytes)
        ring = make_ring(
            session, machine.device, no_room, rng,
            answered=False, output_bytes=output_bytes, driving=machine.driving, shared=machine.lease.shared,
        )  # fmt: skip
        session.ring(len(ring.inputs), ring.fds[:1])
        try:
            side = Side(session.round, len(ring.inputs), rng, least_ms=least_ms)
            with machine.lease.shared():
                side.prepare()
                side.capture()
            with machine.lease.alone():
                count = clocks.calls_of_reference(machine.config.timed_trials, side.estimate_ms)
                return clocks.measure_prepared(side, count)
        finally:
            # A worker that is gone has no ring to free; the error that ended it is already being raised.
            with suppress(*FAILURES):
                session.ring(0, [])


def _as_time(figures: Figures, compile_s: float) -> ReferenceTime:
    return ReferenceTime(
        figures.alone_ms, figures.low_ms, figures.high_ms, figures.judge_ms, figures.calls, round(compile_s, 3)
    )
