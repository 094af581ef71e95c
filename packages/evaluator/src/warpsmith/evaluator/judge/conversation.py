"""The judge's side of a candidate's workers: one step at a time, counted against the candidate's time limit.

On a CPU, time that a worker spends runnable but without a processor does not count.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from warpsmith.evaluator import _native
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.errors import LayoutError, WireError
from warpsmith.evaluator.ipc.messages import Kind, Message
from warpsmith.evaluator.judge.evidence import Evidence
from warpsmith.evaluator.processes import failure_attribution
from warpsmith.evaluator.processes.failure_attribution import CandidateFailedError
from warpsmith.evaluator.processes.machine import Machine
from warpsmith.evaluator.processes.worker import Worker, WorkerDiedError, WorkerTimeoutError

OnLaunchMessage = Callable[[Message, Worker], None]

MOST_TIMES: Final = 4
"""Upper bound on wall time, in multiples of the limit, with the time without a processor included."""
SPARE: Final = 1 / 2
"""Extra time outside a candidate's limit, in multiples of it, for calls of host code that check others."""
SPARE_FOR_REPLAYS: Final = 1 / 2
"""Share of the extra time for the replays of a trial's other recordings; the rest is left for calls of host code."""
LEAST_WAITED_S: Final = 0.05
"""Shorter waits for a processor occur on every machine."""


class _Waiting:
    """Measures how long a worker waits for a processor."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self._seen = worker.run_delay()

    def since_last_call(self) -> float:
        """Return the seconds waited since the last call, or since the start; 0 if unknown."""
        now, before = self.worker.run_delay(), self._seen
        if now is None or before is None or now <= before:
            return 0.0
        self._seen = now
        return now - before


class Conversation:
    """Sends requests to a candidate's workers and receives their replies.

    Args:
        machine: gives the lease and the device.
        config: gives the deadlines.
        evidence: receives the flags that a worker's failure sets.

    Attributes:
        seconds_left: what is left of the candidate's time limit. The reference's and the judge's time do not count,
            nor, on a CPU, time in which the worker waited for a processor.
        used_s: seconds of its time limit that it has used.
        spare_s: what is left of its extra time outside the limit; see `beside_limit`.
        waited_s: seconds that did not count because a worker waited for a processor.
    """

    def __init__(self, machine: Machine, config: EvaluatorConfig, evidence: Evidence) -> None:
        self.seconds_left = config.timeout_s
        self.used_s = self.waited_s = 0.0
        self.spare_s = config.timeout_s * SPARE
        self._kept_spare_s = self.spare_s * (1 - SPARE_FOR_REPLAYS)
        self._most_waited_s = (MOST_TIMES - 1) * config.timeout_s if config.device_kind.interprets else 0.0
        self._waiting: _Waiting | None = None
        # Whether the worker that gets the request may borrow the device.
        self._lends = False
        self._machine = machine
        self._config = config
        self._evidence = evidence
        self._deadline = 0.0

    def ask(
        self,
        worker: Worker,
        kind: Kind,
        fields: dict[str, Any],
        fds: list[int],
        answer: Kind,
        *,
        on_launch: OnLaunchMessage | None = None,
        at_most_s: float | None = None,
        drives: bool = False,
    ) -> Message:
        """Send one request and return the reply.

        Any other behaviour of the worker is the candidate's failure, since the process belongs to the candidate.

        Args:
            worker: one of the candidate's.
            kind: the request's kind.
            fields: the request's fields.
            fds: file descriptors to send with it.
            answer: the expected kind of the reply.
            on_launch: called with each LAUNCH or BUILD received before the reply; without it one is a failure.
            at_most_s: limit for this request, in seconds of the candidate's time.
            drives: whether the driver does most of it; the worker then borrows the device for the rest.

        Raises:
            CandidateFailedError, SuspectError: the candidate's failure.
        """
        if drives:
            with self._machine.driving() as self._lends:
                fields = fields | {"borrows": self._lends}
                return self._asked(worker, kind, fields, fds, answer, on_launch=on_launch, at_most_s=at_most_s)
        self._lends = False
        self._machine.device.settle()
        self._machine.lease.give_way()
        return self._asked(worker, kind, fields, fds, answer, on_launch=on_launch, at_most_s=at_most_s)

    def _asked(
        self,
        worker: Worker,
        kind: Kind,
        fields: dict[str, Any],
        fds: list[int],
        answer: Kind,
        *,
        on_launch: OnLaunchMessage | None,
        at_most_s: float | None,
    ) -> Message:
        kept_back = max(0.0, self.seconds_left - at_most_s) if at_most_s is not None else 0.0
        # Where nothing is credited, the system is not asked, which would take 0.2 ms twice per request. What surrounds
        # timed rounds stays as it was when the precision of times was measured.
        credited = self._most_waited_s > 0 or self._machine.lease.held_here() == "alone"
        self._waiting = _Waiting(worker) if credited else None
        self._deadline = time.monotonic() + self.seconds_left - kept_back
        try:
            worker.send(kind, fields, fds, self.left())
            return self._reply(worker, answer, on_launch)
        except WorkerDiedError as error:
            raise failure_attribution.death(error, worker) from error
        except WorkerTimeoutError as error:
            raise self._overrun(error, at_most_s) from error
        except (WireError, LayoutError, _native.FrameError) as error:
            raise CandidateFailedError(
                "runtime_error", "process_error", f"The candidate's process sent an invalid reply: {error}"
            ) from error
        finally:
            self._credit_waiting()
            before, self.seconds_left = self.seconds_left, self.left() + kept_back
            self.used_s += before - self.seconds_left

    def _overrun(self, error: WorkerTimeoutError, at_most_s: float | None) -> Exception:
        limit_s, on_cpu = self._config.timeout_s, self._config.device_kind.interprets
        limit_s = min(limit_s, at_most_s or limit_s)
        bound_reached = on_cpu and self.waited_s > self._most_waited_s - LEAST_WAITED_S
        return failure_attribution.overrun(error, limit_s, on_cpu=on_cpu, bound_reached=bound_reached)

    def _reply(self, worker: Worker, answer: Kind, on_launch: OnLaunchMessage | None) -> Message:
        while True:
            message = self._receive(worker)
            if message.kind is answer:
                return message
            if message.kind is Kind.DEVICE_WANTED and self._lends:
                self._lend(worker)
                continue
            if message.kind is Kind.FAILED:
                raise failure_attribution.reported(message.fields, worker, self._config, self._evidence.flags)
            if message.kind not in {Kind.LAUNCH, Kind.BUILD} or on_launch is None:
                raise WireError(f"{message.kind.name} was received; {answer.name} was expected.")
            on_launch(message, worker)

    def _lend(self, worker: Worker) -> None:
        """Share the device with the worker until it returns it; the time in which it waits for that does not count."""
        asked = time.monotonic()
        with self._machine.lease.shared():
            self.extend(time.monotonic() - asked)
            worker.send(Kind.DEVICE_LENT, {}, [], self.left())
            returned = self._receive(worker)
            if returned.kind is not Kind.DEVICE_RETURNED:
                raise WireError(f"{returned.kind.name} was received; DEVICE_RETURNED was expected.")

    def _receive(self, worker: Worker) -> Message:
        while True:
            try:
                return worker.receive(self.left())
            except WorkerTimeoutError:
                if self._credit_waiting() < LEAST_WAITED_S:
                    raise

    def _credit_waiting(self) -> float:
        """Extend the deadline by the time the worker waited for a processor since the last call; return that time."""
        if self._waiting is None:
            return 0.0
        waited = min(self._waiting.since_last_call(), self._most_waited_s - self.waited_s)
        self.waited_s += waited
        self._deadline += waited
        return waited

    @contextmanager
    def beside_limit(self, least_s: float) -> Iterator[None]:
        """Let requests in this context use the spare time alone, or `least_s` seconds if less is left of it.

        For calls that check others: they must not push a candidate over its limit.
        """
        limit, used, granted = self.seconds_left, self.used_s, max(self.spare_s, least_s)
        self.seconds_left = granted
        try:
            yield
        finally:
            spent = granted - self.seconds_left
            self.seconds_left, self.used_s = limit, used
            self.spare_s = max(0.0, self.spare_s - spent)

    @property
    def has_time_for_replays(self) -> bool:
        """Whether spare time is left for replays of a trial's other recordings."""
        return self.spare_s > self._kept_spare_s

    @contextmanager
    def beyond_limit(self) -> Iterator[None]:
        """Let requests in this context use the spare time first, and then what is left of the limit.

        For replays that a candidate must be able to make, and that are not begun when the spare time for them is used.
        """
        limit, spare = self.seconds_left, self.spare_s
        self.seconds_left = limit + spare
        try:
            yield
        finally:
            left = max(0.0, self.seconds_left)
            self.spare_s, self.seconds_left = max(0.0, left - limit), min(left, limit)

    def left(self) -> float:
        """Return the seconds until the deadline of the current request."""
        return self._deadline - time.monotonic()

    def extend(self, seconds: float) -> None:
        """Extend the deadline of the current request by time that the candidate did not use."""
        self._deadline += seconds
