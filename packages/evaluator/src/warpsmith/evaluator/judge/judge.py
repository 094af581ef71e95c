"""Evaluates candidates on this machine: admits them to the device, and looks after it between them."""

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from warpsmith.evaluator import _native
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.errors import BadProblemError, EvaluatorError, LayoutError, WireError
from warpsmith.evaluator.judge.attempts import OF_MEMORY, Attempts, Request
from warpsmith.evaluator.judge.compiling.service import CompileFailedError, CompileService
from warpsmith.evaluator.judge.evidence import Evidence
from warpsmith.evaluator.judge.floor import Floor
from warpsmith.evaluator.judge.problem_audit import audit
from warpsmith.evaluator.judge.problem_facts import facts_of
from warpsmith.evaluator.judge.verdicts import verdict_of
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.processes.pool import Machine, WorkerDiedError, WorkerStartError, WorkerTimeoutError
from warpsmith.evaluator.reference.session import (
    ReferenceFailedError,
    ReferenceFaultError,
    ReferenceStore,
    memory_ran_out,
)
from warpsmith.evaluator.system.exhaustion import with_advice
from warpsmith.evaluator.verdict import Seconds, Verdict, invalid

LOST: Final = (
    WorkerStartError,
    WorkerDiedError,
    WorkerTimeoutError,
    CompileFailedError,
    WireError,
    _native.NativeError,
)
"""How a worker of ours is lost, or a call of ours fails on the way to it."""
MOST_TOO_LARGE: Final = 10_000
PROBLEM_REMEDY: Final = (
    "Fix the problem's source; if it only needs more time, raise reference_timeout_s (--reference-timeout)."
)


class Judge:
    """Evaluates candidates on this machine; `evaluate` may be called from several threads."""

    def __init__(self, config: EvaluatorConfig) -> None:
        self.config = config
        self.machine = Machine(config)
        self.references = ReferenceStore(self.machine, audit)
        self.compiling = CompileService(self.machine)
        self.device = self.machine.device.title
        self.health = self.machine.device.health()
        self.floor = Floor()
        self._too_large: set[str] = set()

    def evaluate(
        self,
        problem: Problem,
        source: str,
        *,
        trials: int,
        seed: int | None,
        timeout_s: float,
        on_running: Callable[[bool], None] = lambda running: None,
    ) -> Verdict:
        """Return the verdict on one candidate; `on_running` hears when the work begins, and where it waits for others.

        Raises:
            EvaluatorError: the problem is bad, a worker cannot be contained, or the device is out of use. Never for
                what a candidate does.
        """
        config = self.config.model_copy(update={"timeout_s": timeout_s})
        request = Request(problem, source, trials, secrets.randbits(128) if seed is None else seed, config)
        self.health.check()
        try:
            verdict = self._verdict(request, on_running)
        except Exception:
            self._probe(None)
            raise
        if verdict.status != "correct":
            self._probe(verdict)
        return verdict

    def _probe(self, verdict: Verdict | None) -> None:
        """Look at the device after what it may be to blame for; DeviceQuarantinedError where it is found to be."""
        with self.machine.lease.shared():
            if verdict is None or verdict.status == "invalid":
                self.health.suspect()
                self.health.check()
            else:
                self.health.note(verdict.error_category)

    def _verdict(self, request: Request, on_running: Callable[[bool], None]) -> Verdict:
        started = time.monotonic()
        self.machine.clock.take()  # what an evaluation before left, if it ended in an error
        try:
            with blaming(request.problem):
                evidence = Attempts(self, request, on_running).evidence()
        except LOST as error:
            return invalid(f"The evaluator lost a worker of its own, twice: {with_advice(error).rstrip('.')}.")
        seconds = Seconds(evaluate=time.monotonic() - started, **self.machine.clock.take())
        return verdict_of(evidence, seconds, self.device, self.config.precision)

    def audit(self, problem: Problem) -> dict[str, Any]:
        """Return what can be told of a problem without a candidate: see `facts.facts_of`.

        Raises:
            EvaluatorError: the problem is bad, a worker of ours was lost, or the device is out of use.
        """
        self.health.check()
        try:
            with blaming(problem):
                return self._facts(problem)
        except LOST as error:
            raise EvaluatorError(f"The evaluator lost a worker of its own: {error}.", "Ask again.") from error

    def _facts(self, problem: Problem) -> dict[str, Any]:
        """Return a problem's facts; alone, where the device's memory does not do for it and others."""
        try:
            with self.floor.shared(), self.references.lent(problem.key, problem.source) as session:
                return facts_of(session, self.machine)
        except OF_MEMORY as error:
            if not self.may_fit_alone(problem, error):
                raise
        with (
            self.floor.alone(self.config.reference_timeout_s),
            self.with_all_memory(problem),
            self.references.lent(problem.key, problem.source) as session,
        ):
            return facts_of(session, self.machine)

    def may_fit_alone(self, problem: Problem, error: Exception) -> bool:
        """Whether a device was too full for a problem, which was not found to be too large for it by itself."""
        shared = self.machine.device.kind.shares_memory
        return shared and memory_ran_out(error) and problem.key not in self._too_large

    def was_full(self, evidence: Evidence) -> bool:
        """Whether a candidate found a device full, or filled it."""
        failure, shared = evidence.failure, self.machine.device.kind.shares_memory
        return shared and failure is not None and failure.category == "out_of_memory"

    @contextmanager
    def with_all_memory(self, problem: Problem) -> Iterator[None]:
        """Free a device of what nobody uses, for a problem that is alone; remember one that does not fit even so."""
        self.references.drop_idle()
        try:
            yield
        except OF_MEMORY as error:
            if memory_ran_out(error) and len(self._too_large) < MOST_TOO_LARGE:
                self._too_large.add(problem.key)
            raise

    def close(self) -> None:
        """End all that runs, evaluations under way included: their workers go first."""
        self.machine.close()
        self.compiling.close()
        self.references.close()


@contextmanager
def blaming(problem: Problem) -> Iterator[None]:
    """Turn what the problem's own code did into BadProblemError."""
    try:
        yield
    except ReferenceFaultError as error:
        told = str(error).rstrip(".")
        raise BadProblemError(f"Problem {problem.name} cannot be run: {told}.", PROBLEM_REMEDY) from error
    except ReferenceFailedError as error:
        told = str(error).rstrip(".")
        raise BadProblemError(f"Problem {problem.name} raised in {error.stage}: {told}.", PROBLEM_REMEDY) from error
    except LayoutError as error:
        raise BadProblemError(f"Problem {problem.name} is too large: {error.message}", error.remedy) from error
