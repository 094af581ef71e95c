"""The judge: a trusted process that owns a device, the secret seeds, the expected outputs, the clock and the verdict.

It runs no foreign code, not even the reference. The client starts it as
`python -m warpsmith.evaluator.judge.process FD`.
"""

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final

import torch

from warpsmith.evaluator import _native
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.errors import EvaluatorError, JudgeUnavailableError, WireError
from warpsmith.evaluator.ipc import codec, messages
from warpsmith.evaluator.ipc.messages import Kind
from warpsmith.evaluator.judge.judge import Judge
from warpsmith.evaluator.problem import BYTE_ORDER_MARK, Problem
from warpsmith.evaluator.processes.windows import TimingWindows
from warpsmith.evaluator.system import stderr
from warpsmith.evaluator.system.exhaustion import with_advice
from warpsmith.evaluator.system.threads import started_executor
from warpsmith.evaluator.verdict import Verdict, invalid, well_formed
from warpsmith.records.errors import WarpsmithError

PR_SET_DUMPABLE: Final = 4
SEND_S: Final = 60.0
"""How long a client may leave messages unread."""


class Service:
    """Answers the client's requests over one channel, several at once."""

    def __init__(self, line: "Line", judge: Judge, windows: TimingWindows | None = None) -> None:
        self._line = line
        self._judge = judge
        self._windows = windows
        # Started before READY is sent: a thread that cannot start for lack of memory may never report it.
        self._slots = started_executor(judge.config.slots, "slot")

    def serve(self) -> None:
        """Answer until the client closes the channel or dies; evaluations under way are then dropped."""
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
                self._slots.submit(self._answer, message.fields, time.monotonic())
        finally:
            # Hang up first: the client then retries elsewhere and gets no verdict that this shutdown caused.
            messages.hang_up(self._line.channel)
            self._slots.shutdown(wait=False, cancel_futures=True)

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
            self._send(Kind.REFUSED, _refusal(number, error))
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
        self._line.send(kind, fields)


class Line:
    """The judge's channel to its client; several threads send."""

    def __init__(self, channel: _native.Channel) -> None:
        self.channel = channel
        self._lock = threading.Lock()

    def send(self, kind: Kind, fields: dict[str, Any]) -> None:
        """Send to the client. One that does not read for SEND_S seconds counts as gone."""
        try:
            with self._lock:
                messages.send(self.channel, kind, fields, timeout_s=SEND_S)
        except _native.PeerClosed:
            raise
        except _native.NativeError as error:
            stderr.report(f"The judge cannot send {kind.name} to its client: {error}\n")
            messages.hang_up(self.channel)
            raise

    def windows(self) -> TimingWindows:
        """Return windows that this client opens."""
        return TimingWindows(
            lambda waiting: self.send(Kind.WINDOW_WANTED, {"waiting": waiting}),
            lambda timed: self.send(Kind.WINDOW_ENDED, {"timed": timed}),
        )


def _refusal(number: int, error: WarpsmithError) -> dict[str, Any]:
    message, remedy = well_formed(error.message), well_formed(error.remedy)
    return {"number": number, "type": type(error).__name__, "message": message, "remedy": remedy}


def _own_fault(error: Exception) -> Verdict:
    stderr.report_error(error)
    return invalid(f"The judge failed: {type(error).__name__}: {with_advice(error)}")


def hide_memory() -> None:
    """Forbid other processes of the same user to read this process's memory: it holds secrets of the trials."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def main(arguments: list[str]) -> None:
    stderr.open_standard_descriptors()
    # If SIGCHLD is ignored, which is inherited from a parent, the exit status of children is lost.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    channel = _native.Channel(int(arguments[0]))
    with suppress(_native.PeerClosed):
        _serve(channel)
    # Do not wait for the threads of dropped evaluations.
    os._exit(0)


def _serve(channel: _native.Channel) -> None:
    """Serve until the client closes its end of the channel, which can happen at any time."""
    told, line = messages.receive(channel).fields, Line(channel)
    config = EvaluatorConfig.model_validate_json(told.text("config"))
    windows = line.windows() if told.flag("windows") else None
    hide_memory()
    os.nice(config.nice)
    torch.set_num_threads(1)
    try:
        with _running(config, windows) as judge:
            service = Service(line, judge, windows)
            facts = {"device": judge.device, "arch": judge.machine.config.target_arch}
            messages.send(channel, Kind.READY, facts)
            service.serve()
    except EvaluatorError as error:
        messages.send(channel, Kind.REFUSED, _refusal(0, error), timeout_s=SEND_S)
    except _native.PeerClosed:
        raise
    except Exception as error:  # noqa: BLE001  (the client waits for the reason)
        stderr.report_error(error)
        messages.send(channel, Kind.REFUSED, _refusal(0, _not_started(error)), timeout_s=SEND_S)


def _not_started(error: Exception) -> JudgeUnavailableError:
    return JudgeUnavailableError(
        f"The judge cannot start: {with_advice(error).rstrip('.') or type(error).__name__}.",
        "Free what the machine lacks (processes, memory, file descriptors, disk space in the temporary folder) and try "
        "again; torch and triton must import without PYTHONPATH.",
    )


@contextmanager
def _running(config: EvaluatorConfig, windows: TimingWindows | None) -> Iterator[Judge]:
    """Run a judge. It starts one worker of each role first, so that a machine that cannot fails at once."""
    judge = Judge(config, windows)
    try:
        judge.machine.prepare()
        judge.machine.await_first_workers()
        yield judge
    finally:
        judge.close()


if __name__ == "__main__":
    main(sys.argv[1:])
