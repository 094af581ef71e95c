"""The judge: a trusted process that owns a device, the secret seeds, the expected outputs, the clock and the verdict.

It runs no foreign code, not even the reference. The client starts it as `python -m warpsmith.evaluator.judge.service
FD`.
"""

import ctypes
import os
import random
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from warpsmith.evaluator import _native
from warpsmith.evaluator.config import TIER_STRENGTH, EvaluatorConfig, Precision
from warpsmith.evaluator.errors import (
    BadProblemError,
    EvaluatorError,
    JudgeUnavailableError,
    LayoutError,
    WireError,
)
from warpsmith.evaluator.ipc import codec, messages
from warpsmith.evaluator.ipc.messages import Kind
from warpsmith.evaluator.judge.candidate import CandidateUnderTest
from warpsmith.evaluator.judge.compiling.runs import run_of
from warpsmith.evaluator.judge.compiling.service import Compilation, CompileFailedError, CompileService
from warpsmith.evaluator.judge.evidence import Evidence, TransientError
from warpsmith.evaluator.judge.launches import Launches
from warpsmith.evaluator.judge.pipeline import conduct
from warpsmith.evaluator.judge.problem_audit import audit
from warpsmith.evaluator.judge.problem_facts import facts_of
from warpsmith.evaluator.problem import BYTE_ORDER_MARK, Problem
from warpsmith.evaluator.processes.pool import Machine, WorkerDiedError, WorkerStartError, WorkerTimeoutError
from warpsmith.evaluator.reference.session import (
    ReferenceFailedError,
    ReferenceFaultError,
    ReferenceSession,
    ReferenceStore,
    memory_ran_out,
)
from warpsmith.evaluator.sandbox.roles import roles_of
from warpsmith.evaluator.system import stderr
from warpsmith.evaluator.system.exhaustion import with_advice
from warpsmith.evaluator.system.threads import started_executor
from warpsmith.evaluator.verdict import Seconds, Status, Verdict, invalid, well_formed
from warpsmith.records.errors import WarpsmithError

PR_SET_DUMPABLE: Final = 4
ATTEMPTS: Final = 2
SEND_S: Final = 60.0
"""How long a client may leave unread what it is sent."""
LOST: Final = (
    WorkerStartError,
    WorkerDiedError,
    WorkerTimeoutError,
    CompileFailedError,
    WireError,
    _native.NativeError,
)
"""How a worker of ours is lost, or a call of ours fails on the way to it."""
OF_MEMORY: Final = (torch.OutOfMemoryError, _native.NativeError, ReferenceFailedError)
"""As what a device that is full is met."""
MOST_TOO_LARGE: Final = 10_000
SETTLED: Final = frozenset({"rejected", "timeout"})
PROBLEM_REMEDY: Final = (
    "Fix the problem's source; if it only needs more time, raise reference_timeout_s (--reference-timeout)."
)


class Floor:
    """Lets evaluations run side by side, or one alone: what failed in company is tried again by itself.

    Nobody holds the others up for longer than they were told: then they go on, and that one has company.
    """

    def __init__(self) -> None:
        self._state = threading.Condition()
        self._running = 0
        self._entered = 0
        self._alone = False
        self._held_until = 0.0

    @contextmanager
    def shared(self) -> Iterator[Callable[[], bool]]:
        """Run side by side; yields a function that tells whether anybody else has run meanwhile."""
        with self._state:
            while (seconds := self._held_for()) > 0:
                self._state.wait(seconds)
            self._running += 1
            self._entered += 1
            already, ticket = self._running > 1, self._entered
        try:
            yield lambda: already or self._entered > ticket
        finally:
            with self._state:
                self._running -= 1
                self._state.notify_all()

    @contextmanager
    def alone(self, seconds: float) -> Iterator[None]:
        """Run with nobody beside: others are waited for at most `seconds`, and held up for as long again."""
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


@dataclass(frozen=True)
class Request:
    """What the client asked for, with the seed that makes all of it repeatable."""

    problem: Problem
    source: str
    trials: int
    seed: int
    config: EvaluatorConfig


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
                evidence = _Run(self, request, on_running).in_company()
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


def is_nobodys_to_retry(error: Exception) -> bool:
    """Whether an error is about the problem, the candidate or the device, so that another attempt ends in the same.

    What is left is a failure of the evaluator's own, expected or not.
    """
    if isinstance(error, ReferenceFaultError):
        return error.took_deadline
    about_others = (TransientError, ReferenceFailedError, torch.OutOfMemoryError, WarpsmithError)
    return isinstance(error, about_others) and not isinstance(error, WireError | _native.NativeError)


class _Run:
    """One request: its attempts in company and, where that fails for reasons that company may explain, alone."""

    def __init__(self, judge: Judge, request: Request, on_running: Callable[[bool], None]) -> None:
        self.judge = judge
        self.request = request
        self.on_running = on_running
        self.seconds_left = ATTEMPTS * request.config.timeout_s

    def in_company(self) -> Evidence:
        full = False
        with self.judge.floor.shared() as had_company:
            self.on_running(True)
            try:
                return self._with_spare_attempt()
            except TransientError as error:
                if not error.killed and not had_company():
                    return error.evidence
                full = self.judge.was_full(error.evidence)
            except OF_MEMORY as error:
                full = self.judge.may_fit_alone(self.request.problem, error)
                if not full:
                    raise
        self.on_running(False)
        with self.judge.floor.alone(self.request.config.timeout_s):
            self.on_running(True)
            with self.judge.with_all_memory(self.request.problem) if full else nullcontext():
                return self._alone()

    def _alone(self) -> Evidence:
        try:
            evidence = self._with_spare_attempt()
        except TransientError as error:
            evidence = error.evidence
        evidence.flags.add("retried")
        return evidence

    def _with_spare_attempt(self) -> Evidence:
        """Try again once when the evaluator fails, and once more for each zygote: they can die one by one.

        So can the workers that were ready when a machine ran out of memory: taken before its end, each is one more.
        """
        config = self.request.config
        zygotes, ready, spare = len(roles_of(config)), config.slots * config.ready_workers, ATTEMPTS - 1
        while True:
            try:
                return self._attempt()
            except Exception as error:
                if is_nobodys_to_retry(error):
                    raise
                if isinstance(error, WorkerDiedError) and error.lost_with_zygote and zygotes:
                    zygotes -= 1
                elif isinstance(error, WorkerDiedError) and error.killed and ready:
                    ready -= 1
                elif spare:
                    spare -= 1
                else:
                    raise

    def _attempt(self) -> Evidence:
        references, key = self.judge.references, self.request.problem.key
        session = references.take(key, self.request.problem.source)
        try:
            flags = self._audited(session)
            evidence = self._candidate(session)
        except BaseException:
            session.end()
            raise
        references.give_back(key, session)
        evidence.flags |= flags
        evidence.tier = min(evidence.tier or session.worker.tier, session.worker.tier, key=TIER_STRENGTH.__getitem__)
        return evidence

    def _audited(self, session: ReferenceSession) -> set[str]:
        session.reset_state()
        finding = self.judge.references.finding(self.request.problem.key, session)
        if not finding:
            return set()
        if self.request.config.allow_degenerate:
            return {"degenerate_problem"}
        raise BadProblemError(
            f"Problem {self.request.problem.name} is degenerate: {finding} would pass as its answer.",
            "Change its inputs so that the output depends on them, or set allow_degenerate (--allow-degenerate) to "
            "have it flagged instead.",
        )

    def _candidate(self, session: ReferenceSession) -> Evidence:
        """Judge the candidate once. What all attempts take together is bounded, whyever there are several."""
        request, rng = self.request, random.Random(self.request.seed)
        compiling = run_of(self.judge.compiling, request.source)
        candidate = CandidateUnderTest.of(request.source, self.judge.machine, request.config, rng)
        conversation = candidate.conversation
        conversation.seconds_left = given = min(conversation.seconds_left, self.seconds_left)
        try:
            return conduct(session, candidate, Launches(compiling), request.trials, rng)
        finally:
            self.seconds_left -= given - conversation.seconds_left
            compiling.close()


def _times(evidence: Evidence, status: str) -> dict[str, Any]:
    """Return the fields of a verdict that say how long calls take; nothing for a candidate that is not correct."""
    found = evidence.timing
    if found is None or status != "correct":
        return {}
    return {
        "speedup": found.reference_ms / found.runtime_ms,
        "runtime_ms": found.runtime_ms,
        "reference_ms": found.reference_ms,
        "timing_tier": found.tier,
    }


def verdict_of(evidence: Evidence, seconds: Seconds, device: str = "cpu", precision: Precision = "ieee") -> Verdict:
    """Return what the evidence amounts to: a rejection first, then what does not compile, then what is wrong."""
    compilation = evidence.compilation or Compilation(ok=False)
    failure = evidence.failure
    status: Status = failure.status if failure else "correct"  # type: ignore[assignment]
    category = failure.category if failure else None
    message = failure.message if failure else None
    if (evidence.compilation is not None or not failure) and not compilation.ok and status not in SETTLED:
        status, category, message = "compile_error", compilation.category or "unknown", compilation.message
    if status == "correct" and not evidence.replayed and "not_replayed" not in evidence.flags:
        status, category, message = "rejected", None, "The launches of forward were not replayed."
    flags = evidence.flags | ({"tf32_dot"} if compilation.tf32 and precision == "ieee" else set())
    if status == "incorrect" and evidence.passes_kernelbench:
        flags = flags | {"kernelbench_passes"}
    if status == "incorrect" and "tf32_dot" in flags:
        message = f'{message} Note: a float32 tl.dot runs in TF32 on the target chip; pass input_precision="ieee".'
    return Verdict(
        status=status,
        compiled=compilation.ok,
        correct=status == "correct",
        isolation_tier=evidence.tier or "none",
        recording=evidence.recording,
        flags=tuple(sorted(flags)),
        error_category=category,
        error_message=message,
        max_abs_error=evidence.max_abs_error,
        mismatched_fraction=evidence.mismatched_fraction,
        trials=evidence.trials,
        compile_cached=compilation.cached,
        device=device,
        **_times(evidence, status),
        seconds=replace(seconds, compile=compilation.seconds),
    )


class Service:
    """Answers the client's requests over one channel, several at once."""

    def __init__(self, channel: _native.Channel, judge: Judge) -> None:
        self._channel = channel
        self._judge = judge
        self._lock = threading.Lock()
        # Before the client hears READY: a thread that cannot start for want of memory may never say so.
        self._slots = started_executor(judge.config.slots, "slot")

    def serve(self) -> None:
        """Answer until the client closes the channel or dies; what is under way then has nobody to be answered to."""
        try:
            while True:
                message = messages.receive(self._channel)
                if message.kind is Kind.PING:
                    self._send(Kind.PONG, {})
                    continue
                if message.kind is Kind.AUDIT:
                    self._slots.submit(self._audit, message.fields)
                    continue
                self._slots.submit(self._answer, message.fields, time.monotonic())
        finally:
            # First, so that the client of a judge that fails here asks another, and gets no answer that its end made.
            messages.hang_up(self._channel)
            self._slots.shutdown(wait=False, cancel_futures=True)

    def _answer(self, fields: codec.Fields, arrived: float) -> None:
        number = fields.integer("number")
        wait = time.monotonic() - arrived
        try:
            verdict = self._evaluate(fields, number)
            verdict = replace(verdict, seconds=replace(verdict.seconds, wait=wait))
            self._send(Kind.VERDICT, {"number": number, "verdict": verdict.to_record()})
        except WarpsmithError as error:
            self._send(Kind.REFUSED, _refusal(number, error))
        except Exception as error:  # noqa: BLE001  (a fault of the judge's own must reach the client as `invalid`)
            self._send(Kind.VERDICT, {"number": number, "verdict": _own_fault(error).to_record()})

    def _evaluate(self, fields: codec.Fields, number: int) -> Verdict:
        problem = Problem(fields.text("name"), fields.text("problem"))
        seed = fields.value("seed")
        return self._judge.evaluate(
            problem,
            fields.text("candidate").removeprefix(BYTE_ORDER_MARK),
            trials=fields.integer("trials"),
            seed=seed if isinstance(seed, int) else None,
            timeout_s=fields.number("timeout_s"),
            on_running=lambda running: self._send(Kind.PROGRESS, {"number": number, "running": running}),
        )

    def _audit(self, fields: codec.Fields) -> None:
        number = fields.integer("number")
        try:
            facts = self._judge.audit(Problem(fields.text("name"), fields.text("problem")))
            self._send(Kind.AUDITED, {"number": number, "facts": facts})
        except WarpsmithError as error:
            self._send(Kind.REFUSED, _refusal(number, error))
        except Exception as error:  # noqa: BLE001  (as above: the client waits for an answer)
            self._send(Kind.REFUSED, _refusal(number, EvaluatorError(_own_fault(error).error_message or "", "")))

    def _send(self, kind: Kind, fields: dict[str, Any]) -> None:
        """Send to the client; one that has not read for long is gone, and with it whoever waits for an answer."""
        try:
            with self._lock:
                messages.send(self._channel, kind, fields, timeout_s=SEND_S)
        except _native.PeerClosed:
            raise
        except _native.NativeError as error:
            stderr.report(f"The client of the judge cannot be told {kind.name}: {error}\n")
            messages.hang_up(self._channel)
            raise


def _refusal(number: int, error: WarpsmithError) -> dict[str, Any]:
    message, remedy = well_formed(error.message), well_formed(error.remedy)
    return {"number": number, "type": type(error).__name__, "message": message, "remedy": remedy}


def _own_fault(error: Exception) -> Verdict:
    stderr.report_error(error)
    return invalid(f"The judge failed: {type(error).__name__}: {with_advice(error)}")


def hide_memory() -> None:
    """Forbid other processes of the same user to read this process: it holds what a candidate must not know."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def main(arguments: list[str]) -> None:
    stderr.open_standard_descriptors()
    # Who ignores it, as a parent may have this process do, cannot learn how a child ended.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    channel = _native.Channel(int(arguments[0]))
    with suppress(_native.PeerClosed):
        _serve(channel)
    # Threads of evaluations that nobody waits for would otherwise hold up the end.
    os._exit(0)


def _serve(channel: _native.Channel) -> None:
    """Serve until the client's end of the channel is closed, which may be at any time."""
    config = EvaluatorConfig.model_validate_json(messages.receive(channel).fields.text("config"))
    hide_memory()
    os.nice(config.nice)
    torch.set_num_threads(1)
    try:
        with _running(config) as judge:
            service = Service(channel, judge)
            facts = {"device": judge.device, "arch": judge.machine.config.target_arch}
            messages.send(channel, Kind.READY, facts)
            service.serve()
    except EvaluatorError as error:
        messages.send(channel, Kind.REFUSED, _refusal(0, error), timeout_s=SEND_S)
    except _native.PeerClosed:
        raise
    except Exception as error:  # noqa: BLE001  (the client waits to hear why)
        stderr.report_error(error)
        messages.send(channel, Kind.REFUSED, _refusal(0, _not_started(error)), timeout_s=SEND_S)


def _not_started(error: Exception) -> JudgeUnavailableError:
    return JudgeUnavailableError(
        f"The judge cannot start: {with_advice(error).rstrip('.') or type(error).__name__}.",
        "Give the machine back what it lacks (processes, memory, descriptors, room in the temporary folder), and "
        "try again; torch and triton must import without PYTHONPATH.",
    )


@contextmanager
def _running(config: EvaluatorConfig) -> Iterator[Judge]:
    """Run a judge that has seen the first worker of each role: a machine that cannot make one says so at once."""
    judge = Judge(config)
    try:
        judge.machine.prepare()
        judge.machine.await_first_workers()
        yield judge
    finally:
        judge.close()


if __name__ == "__main__":
    main(sys.argv[1:])
