"""Answers the requests of a judge's client: evaluations in slots, audits, and the windows that the client opens."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from warpsmith.evaluator import _native
from warpsmith.evaluator.baselines import baselines_of
from warpsmith.evaluator.errors import EvaluatorError, WireError
from warpsmith.evaluator.ipc import codec, messages
from warpsmith.evaluator.ipc.messages import Kind
from warpsmith.evaluator.judge.evaluation_slots import EvaluationSlots
from warpsmith.evaluator.judge.judge import Judge
from warpsmith.evaluator.problem import BYTE_ORDER_MARK, Problem
from warpsmith.evaluator.processes.window_requests import RequestedWindows
from warpsmith.evaluator.recordings.library_policy import policy_of
from warpsmith.evaluator.system import stderr
from warpsmith.evaluator.system.exhaustion import with_advice
from warpsmith.evaluator.verdict import Verdict, invalid, well_formed
from warpsmith.records.errors import WarpsmithError

SEND_S: Final = 60.0
"""How long a client may leave messages unread."""


class Line:
    """The judge's channel to its client; several threads send."""

    def __init__(self, channel: _native.Channel) -> None:
        self.channel = channel
        self._lock = threading.Lock()

    def send(self, kind: Kind, fields: dict[str, Any]) -> None:
        """Send to the client. A client that does not read for SEND_S seconds counts as gone."""
        try:
            with self._lock:
                messages.send(self.channel, kind, fields, timeout_s=SEND_S)
        except _native.PeerClosed:
            raise
        except _native.NativeError as error:
            stderr.report(f"The judge cannot send {kind.name} to its client: {error}\n")
            messages.hang_up(self.channel)
            raise

    def windows(self) -> RequestedWindows:
        """Return windows that this client opens."""
        return RequestedWindows(
            lambda waiting: self.send(Kind.WINDOW_WANTED, {"waiting": waiting}),
            lambda timed: self.send(Kind.WINDOW_ENDED, {"timed": timed}),
        )


class Service:
    """Answers the client's requests over one channel, several at once."""

    def __init__(self, line: Line, judge: Judge, windows: RequestedWindows | None = None) -> None:
        self._line = line
        self._judge = judge
        self._windows = windows
        self._slots = EvaluationSlots(judge.config.slots)

    def serve(self) -> None:
        """Answer until the client closes the channel or dies; running evaluations are then dropped."""
        try:
            while True:
                message = messages.receive(self._line.channel)
                if message.kind is Kind.PING:
                    self._send(Kind.PONG, {})
                    continue
                if message.kind in (Kind.WINDOW_OPENED, Kind.WINDOW_REFUSED):
                    self._window(message)
                    continue
                if message.kind is Kind.AUDIT:
                    self._slots.submit(self._audit, message.fields)
                    continue
                if message.kind is Kind.ASK_TIMES:
                    self._slots.submit(self._times, message.fields)
                    continue
                if message.kind is Kind.ASK_OUTPUTS:
                    self._slots.submit(self._outputs, message.fields)
                    continue
                self._slots.submit(self._answer, message.fields, time.monotonic())
        finally:
            # Hang up first: the client then retries elsewhere and gets no verdict that this shutdown caused.
            messages.hang_up(self._line.channel)
            self._slots.drop()

    def _window(self, message: messages.Message) -> None:
        if self._windows is None:
            raise WireError(f"{message.kind.name} was received, but this judge asks for no windows.")
        if message.kind is Kind.WINDOW_OPENED:
            self._windows.opened(message.fields.number("until"))
        else:
            self._windows.refused(message.fields.text("reason"))

    def _answer(self, fields: codec.Fields, arrived: float) -> None:
        number = fields.integer("number")
        wait = time.monotonic() - arrived
        try:
            verdict = self._evaluate(fields, number)
            verdict = replace(verdict, seconds=replace(verdict.seconds, wait=wait))
            self._send(Kind.VERDICT, {"number": number, "verdict": verdict.to_record()})
        except WarpsmithError as error:
            self._send(Kind.REFUSED, refusal(number, error))
        except Exception as error:  # noqa: BLE001  (the judge's own faults must reach the client as `invalid`)
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
            operators=policy_of(fields.text("operators")),
            baseline=baselines_of(fields.texts("baseline")),
            on_running=lambda running: self._send(Kind.PROGRESS, {"number": number, "running": running}),
        )

    def _audit(self, fields: codec.Fields) -> None:
        self._tell(fields, Kind.AUDITED, lambda problem: {"facts": self._judge.audit(problem)})

    def _outputs(self, fields: codec.Fields) -> None:
        seeds = [seed for seed in fields.sequence("seeds") if isinstance(seed, int)]
        self._tell(fields, Kind.OUTPUTS, lambda problem: {"outputs": self._judge.outputs(problem, seeds)})

    def _times(self, fields: codec.Fields) -> None:
        def times(problem: Problem) -> dict[str, Any]:
            return self._judge.reference_times(problem, baselines_of(fields.texts("baseline"))).to_fields()

        self._tell(fields, Kind.TIMES, times)

    def _tell(self, fields: codec.Fields, kind: Kind, ask: Callable[[Problem], dict[str, Any]]) -> None:
        """Send what is learned about a problem, or why nothing can be."""
        number = fields.integer("number")
        try:
            self._send(kind, {"number": number} | ask(Problem(fields.text("name"), fields.text("problem"))))
        except WarpsmithError as error:
            self._send(Kind.REFUSED, refusal(number, error))
        except Exception as error:  # noqa: BLE001  (as above: the client waits for an answer)
            self._send(Kind.REFUSED, refusal(number, EvaluatorError(_own_fault(error).error_message or "", "")))

    def _send(self, kind: Kind, fields: dict[str, Any]) -> None:
        self._line.send(kind, fields)


def refusal(number: int, error: WarpsmithError) -> dict[str, Any]:
    message, remedy = well_formed(error.message), well_formed(error.remedy)
    return {"number": number, "type": type(error).__name__, "message": message, "remedy": remedy}


def _own_fault(error: Exception) -> Verdict:
    stderr.report_error(error)
    return invalid(f"The judge failed: {type(error).__name__}: {with_advice(error)}")
