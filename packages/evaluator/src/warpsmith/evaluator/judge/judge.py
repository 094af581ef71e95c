"""Evaluates candidates on this machine: decides which run at once, and checks its health between them."""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from warpsmith.evaluator import _native
from warpsmith.evaluator.baselines import BaselineName, ReferenceTimes
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.errors import BadProblemError, EvaluatorError, LayoutError, WireError
from warpsmith.evaluator.judge.attempts import MEMORY_ERRORS, Attempts, Request
from warpsmith.evaluator.judge.audit_report import facts_of
from warpsmith.evaluator.judge.compiling.service import CompileFailedError, CompileService
from warpsmith.evaluator.judge.concurrency import Concurrency
from warpsmith.evaluator.judge.evidence import Evidence
from warpsmith.evaluator.judge.problem_audit import audit
from warpsmith.evaluator.judge.problem_facts import ProblemFacts
from warpsmith.evaluator.judge.reference_outputs import outputs_of
from warpsmith.evaluator.judge.reference_times import times_of
from warpsmith.evaluator.judge.verdicts import verdict_of
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.processes.machine import Machine
from warpsmith.evaluator.processes.window_requests import NoWindowError, RequestedWindows
from warpsmith.evaluator.processes.worker import WorkerDiedError, WorkerStartError, WorkerTimeoutError
from warpsmith.evaluator.recordings.library_policy import OperatorPolicy
from warpsmith.evaluator.reference.session import (
    ReferenceFailedError,
    ReferenceFaultError,
    ReferenceSession,
    ReferenceStore,
    memory_ran_out,
)
from warpsmith.evaluator.system.exhaustion import with_advice
from warpsmith.evaluator.verdict import Seconds, Verdict, invalid

T = TypeVar("T")

LOST: Final = (
    WorkerStartError,
    WorkerDiedError,
    WorkerTimeoutError,
    CompileFailedError,
    WireError,
    _native.NativeError,
)
"""Errors with which the evaluator loses a worker of its own, or a call to one fails."""
MOST_TOO_LARGE: Final = 10_000
PROBLEM_REMEDY: Final = (
    "Fix the problem's source; if it only needs more time, raise reference_timeout_s (--reference-timeout)."
)
RAISED_REMEDY: Final = "Fix the problem's source."
STAGES: Final = {"make_inputs": "get_inputs", "run": "forward"}
"""Names of steps as a problem's author would say them, where there is one."""


class Judge:
    """Evaluates candidates on this machine; `evaluate` can be called from several threads.

    Args:
        config: of the evaluator.
        windows: given if other processes use the device too; see `Lease`.
        beside_others: whether other judges of the evaluator share the machine and the device: no evaluation is ever
            alone there.
    """

    def __init__(
        self, config: EvaluatorConfig, windows: RequestedWindows | None = None, *, beside_others: bool = False
    ) -> None:
        self.config = config
        self.machine = Machine(config, windows)
        self.references = ReferenceStore(self.machine, audit)
        self.compiling = CompileService(self.machine)
        self.facts = ProblemFacts(self.machine)
        self.device = self.machine.device.title
        self.health = self.machine.device.health()
        self.concurrency = Concurrency(beside_others=beside_others)
        self._beside_others = beside_others
        self._too_large: set[str] = set()

    def evaluate(
        self,
        problem: Problem,
        source: str,
        *,
        trials: int,
        seed: int | None,
        timeout_s: float,
        operators: OperatorPolicy | None = None,
        baseline: Sequence[BaselineName] | None = None,
        on_running: Callable[[bool], None] = lambda running: None,
    ) -> Verdict:
        """Return the verdict on one candidate; `on_running` is called with True when it runs, with False when it waits.

        `operators` and `baseline`: None takes the configured ones.

        Raises:
            EvaluatorError: the problem is bad, a worker cannot be contained, or the device is out of use; never
                because of what a candidate does.
        """
        of_request = {
            "timeout_s": timeout_s,
            "operators": operators or self.config.operators,
            "baseline": tuple(baseline or self.config.baseline),
        }
        config = self.config.model_copy(update=of_request)
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
        """Probe the device after a failure it may have caused; DeviceQuarantinedError if it is out of use."""
        with self.machine.lease.shared():
            if verdict is None or verdict.status == "invalid":
                self.health.suspect()
                self.health.check()
            else:
                self.health.note(verdict.error_category)

    def _verdict(self, request: Request, on_running: Callable[[bool], None]) -> Verdict:
        started = time.monotonic()
        self._spent()  # discards times of an earlier evaluation that ended in an error
        try:
            with problem_faults(request.problem):
                evidence = Attempts(self, request, on_running).evidence()
        except LOST as error:
            return invalid(f"The evaluator lost a worker of its own twice: {with_advice(error).rstrip('.')}.")
        except NoWindowError as error:
            return invalid(f"The candidate could not be timed: {error}.")
        seconds = Seconds(evaluate=time.monotonic() - started, **self._spent())
        return verdict_of(evidence, seconds, self.device, request.config)

    def _spent(self) -> dict[str, float]:
        """Return what this thread spent since the last call, by fields of `Seconds`."""
        spent: dict[str, float] = {}
        spent.update(self.machine.clock.take().items())
        spent.update(self.machine.lease.uses.take().items())
        del spent["without"]
        return spent

    def audit(self, problem: Problem) -> dict[str, Any]:
        """Return the facts of a problem, which need no candidate: see `audit_report.facts_of`.

        Raises:
            EvaluatorError: the problem is bad, the evaluator lost a worker, or the device is out of use.
        """
        return self._ask_reference(problem, lambda session: facts_of(session, self.machine))

    def outputs(self, problem: Problem, seeds: Sequence[int]) -> list[list[dict[str, Any]]]:
        """Return what a problem's reference computes from seeded inputs: see `reference_outputs.outputs_of`.

        Raises:
            EvaluatorError: as for `audit`.
        """
        return self._ask_reference(problem, lambda session: outputs_of(session, seeds))

    def reference_times(self, problem: Problem, names: Sequence[BaselineName]) -> ReferenceTimes:
        """Return the times of a problem's reference: as it is, and compiled.

        Raises:
            EvaluatorError: as for `audit`.
        """
        return self._reported(problem, lambda: self._times_beside_others(problem, names))

    def _times_beside_others(self, problem: Problem, names: Sequence[BaselineName]) -> ReferenceTimes:
        with self.concurrency.shared():
            return times_of(self.machine, problem, names)

    def _ask_reference(self, problem: Problem, ask: Callable[[ReferenceSession], T]) -> T:
        """Return what the problem's reference alone reveals."""
        return self._reported(problem, lambda: self._asked(problem, ask))

    def _reported(self, problem: Problem, find_out: Callable[[], T]) -> T:
        """Return what is learned about a problem; failures become errors for the caller."""
        self.health.check()
        try:
            with problem_faults(problem):
                return find_out()
        except LOST as error:
            raise EvaluatorError(f"The evaluator lost a worker of its own: {error}.", "Retry.") from error
        except NoWindowError as error:
            raise EvaluatorError(f"The reference could not be timed: {error}.", "Retry.") from error

    def _asked(self, problem: Problem, ask: Callable[[ReferenceSession], T]) -> T:
        """Ask; runs alone if the device's memory does not suffice for the problem and others."""
        try:
            with self.concurrency.shared(), self.references.lent(problem.key, problem.source) as session:
                return ask(session)
        except MEMORY_ERRORS as error:
            if not self.may_fit_alone(problem, error):
                raise
        with (
            self.concurrency.alone(self.config.reference_timeout_s),
            self.with_all_memory(problem),
            self.references.lent(problem.key, problem.source) as session,
        ):
            return ask(session)

    def may_fit_alone(self, problem: Problem, error: Exception) -> bool:
        """Whether memory ran out because the device is shared, and the problem is not known to be too large for it."""
        shared = self.machine.device.kind.shares_memory
        return shared and memory_ran_out(error) and problem.key not in self._too_large

    def was_full(self, evidence: Evidence) -> bool:
        """Whether the candidate ran out of memory on a shared device."""
        failure, shared = evidence.failure, self.machine.device.kind.shares_memory
        return shared and failure is not None and failure.category == "out_of_memory"

    @contextmanager
    def with_all_memory(self, problem: Problem) -> Iterator[None]:
        """Free the device's unused memory for a problem that runs alone; remember one that still does not fit.

        With other judges on the device none is remembered: they may have filled it.
        """
        self.references.drop_idle()
        try:
            yield
        except MEMORY_ERRORS as error:
            if memory_ran_out(error) and not self._beside_others and len(self._too_large) < MOST_TOO_LARGE:
                self._too_large.add(problem.key)
            raise

    def close(self) -> None:
        """End everything, running evaluations included; their workers end first."""
        self.machine.close()
        self.compiling.close()
        self.references.close()


@contextmanager
def problem_faults(problem: Problem) -> Iterator[None]:
    """Turn failures of the problem's own code into BadProblemError."""
    try:
        yield
    except ReferenceFaultError as error:
        text = str(error).rstrip(".")
        raise BadProblemError(f"Problem {problem.name} cannot be run: {text}.", PROBLEM_REMEDY) from error
    except ReferenceFailedError as error:
        text, stage = str(error).rstrip("."), STAGES.get(error.stage, error.stage)
        raise BadProblemError(f"Problem {problem.name} raised in {stage}: {text}.", RAISED_REMEDY) from error
    except LayoutError as error:
        raise BadProblemError(f"Problem {problem.name} is too large: {error.message}", error.remedy) from error
