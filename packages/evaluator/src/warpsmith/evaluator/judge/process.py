"""The judge: a trusted process that owns a device, the secret seeds, the expected outputs, the clock and the verdict.

It runs no foreign code, not even the reference. The client starts it as
`python -m warpsmith.evaluator.judge.process FD`.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import torch

from warpsmith.evaluator import _native
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.errors import EvaluatorError, JudgeUnavailableError
from warpsmith.evaluator.ipc import messages
from warpsmith.evaluator.ipc.messages import Kind
from warpsmith.evaluator.judge.judge import Judge
from warpsmith.evaluator.judge.service import SEND_S, Line, Service, refusal
from warpsmith.evaluator.processes.window_requests import RequestedWindows
from warpsmith.evaluator.system import stderr
from warpsmith.evaluator.system.exhaustion import with_advice

PR_SET_DUMPABLE: Final = 4


def hide_memory() -> None:
    """Keep other processes of the same user from reading this process's memory: it holds the trials' secrets."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def main(arguments: list[str]) -> None:
    stderr.open_standard_descriptors()
    # If SIGCHLD is ignored, which a parent can pass on, the exit status of children is lost.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    channel = _native.Channel(int(arguments[0]))
    with suppress(_native.PeerClosed):
        _serve(channel)
    # Do not wait for the threads of dropped evaluations.
    os._exit(0)


def _serve(channel: _native.Channel) -> None:
    """Serve until the client closes its end of the channel, which can happen at any time."""
    fields, line = messages.receive(channel).fields, Line(channel)
    config = EvaluatorConfig.model_validate_json(fields.text("config"))
    windows = line.windows() if fields.flag("windows") else None
    hide_memory()
    os.nice(config.nice)
    torch.set_num_threads(1)
    try:
        with _running(config, windows, fields.flag("beside_others")) as judge:
            service = Service(line, judge, windows)
            facts = {"device": judge.device, "arch": judge.machine.config.target_arch}
            messages.send(channel, Kind.READY, facts)
            service.serve()
    except EvaluatorError as error:
        messages.send(channel, Kind.REFUSED, refusal(0, error), timeout_s=SEND_S)
    except _native.PeerClosed:
        raise
    except Exception as error:  # noqa: BLE001  (the client waits for the reason)
        stderr.report_error(error)
        messages.send(channel, Kind.REFUSED, refusal(0, _not_started(error)), timeout_s=SEND_S)


def _not_started(error: Exception) -> JudgeUnavailableError:
    return JudgeUnavailableError(
        f"The judge cannot start: {with_advice(error).rstrip('.') or type(error).__name__}.",
        "Free what the machine lacks (processes, memory, file descriptors, disk space in the temporary folder) and try "
        "again; torch and triton must import without PYTHONPATH.",
    )


@contextmanager
def _running(config: EvaluatorConfig, windows: RequestedWindows | None, beside_others: bool) -> Iterator[Judge]:
    """Run a judge. It starts one worker of each role first, so that a machine that cannot fails at once."""
    judge = Judge(config, windows, beside_others=beside_others)
    try:
        judge.machine.prepare()
        judge.machine.await_first_workers()
        yield judge
    finally:
        judge.close()


if __name__ == "__main__":
    main(sys.argv[1:])
