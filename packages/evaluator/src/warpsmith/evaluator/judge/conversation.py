"""The judge's side of workers that belong to a candidate: one step at a time, all of it on the candidate's time.

On a CPU, time in which a worker was ready to run and others had the processors is not the candidate's.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from warpsmith.evaluator import _native
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.errors import LayoutError, WireError
from warpsmith.evaluator.ipc.messages import Kind, Message
from warpsmith.evaluator.judge.evidence import Evidence
from warpsmith.evaluator.processes import failure_attribution
from warpsmith.evaluator.processes.failure_attribution import CandidateFailedError
from warpsmith.evaluator.processes.pool import Machine, Worker, WorkerDiedError, WorkerTimeoutError

OnLaunch = Callable[[Message, Worker], None]

MOST_TIMES: Final = 4
"""How often the limit may pass in all, the time without a processor included."""
LEAST_WAITED_S: Final = 0.05
"""What a worker waits for a processor on any machine."""


class _Waiting:
    """How long a worker waits for a processor, from now on."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self._seen = worker.run_delay()

    def since_last_asked(self) -> float:
        """Return the seconds since the last call, or since the beginning; 0 where they are not known."""
        now, before = self.worker.run_delay(), self._seen
        if now is None or before is None or now <= before:
            return 0.0
        self._seen = now
        return now - before


class Conversation:
    """Sends steps to a candidate's workers and receives their answers.

    Args:
        machine: its lease and memory.
        config: its deadlines.
        evidence: collects flags that a worker's failure sets.

    Attributes:
        seconds_left: of the candidate's time. Neither the reference's time nor the judge's own counts, nor, on a CPU,
            that in which the worker waited for a processor.
        waited_s: the seconds that did not count since a worker waited for a processor.
    """

    def __init__(self, machine: Machine, config: EvaluatorConfig, evidence: Evidence) -> None:
        self.seconds_left = config.timeout_s
        self.waited_s = 0.0
        self._most_waited_s = (MOST_TIMES - 1) * config.timeout_s if config.device_kind.interprets else 0.0
        self._waiting: _Waiting | None = None
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
        on_launch: OnLaunch | None = None,
        at_most_s: float | None = None,
    ) -> Message:
        """Send one step and return its answer.

        Whatever else the worker says or does is the candidate's failure, since its process belongs to it.

        Args:
            worker: of the candidate.
            kind: of the step.
            fields: of the step.
            fds: descriptors that go with it.
            answer: the kind that is expected back.
            on_launch: called with each LAUNCH on the way; without it a LAUNCH is a failure.
            at_most_s: of the candidate's time for this step.

        Raises:
            CandidateFailedError, SuspectError: the candidate's failure.
        """
        kept_back = max(0.0, self.seconds_left - at_most_s) if at_most_s is not None else 0.0
        self._machine.device.settle()
        self._machine.lease.give_way()
        self._waiting = _Waiting(worker)
        self._deadline = time.monotonic() + self.seconds_left - kept_back
        try:
            worker.send(kind, fields, fds, self.left())
            return self._answered(worker, answer, on_launch)
        except WorkerDiedError as error:
            raise failure_attribution.death(error, worker) from error
        except WorkerTimeoutError as error:
            raise self._overrun(error) from error
        except (WireError, LayoutError, _native.FrameError) as error:
            raise CandidateFailedError(
                "runtime_error", "process_error", f"The candidate's process sent what is no answer: {error}"
            ) from error
        finally:
            self._make_good()
            self.seconds_left = self.left() + kept_back

    def _overrun(self, error: WorkerTimeoutError) -> Exception:
        limit_s, on_cpu = self._config.timeout_s, self._config.device_kind.interprets
        bound_reached = on_cpu and self.waited_s > self._most_waited_s - LEAST_WAITED_S
        return failure_attribution.overrun(error, limit_s, on_cpu=on_cpu, bound_reached=bound_reached)

    def _answered(self, worker: Worker, answer: Kind, on_launch: OnLaunch | None) -> Message:
        while True:
            message = self._received(worker)
            if message.kind is answer:
                return message
            if message.kind is Kind.FAILED:
                raise failure_attribution.reported(message.fields, worker, self._config, self._evidence.flags)
            if message.kind is not Kind.LAUNCH or on_launch is None:
                raise WireError(f"{message.kind.name} was sent; {answer.name} was expected.")
            on_launch(message, worker)

    def _received(self, worker: Worker) -> Message:
        while True:
            try:
                return worker.receive(self.left())
            except WorkerTimeoutError:
                if self._make_good() < LEAST_WAITED_S:
                    raise

    def _make_good(self) -> float:
        """Move the deadline by what the worker waited for a processor since the last call; return by how much."""
        assert self._waiting is not None
        waited = min(self._waiting.since_last_asked(), self._most_waited_s - self.waited_s)
        self.waited_s += waited
        self._deadline += waited
        return waited

    def left(self) -> float:
        """Return the seconds until the deadline of the step under way."""
        return self._deadline - time.monotonic()

    def extend(self, seconds: float) -> None:
        """Move the deadline of the step under way: what took so long was not the candidate's doing."""
        self._deadline += seconds
