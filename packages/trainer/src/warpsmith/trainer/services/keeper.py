"""The keeper of one service: starts it, forwards signals to it, and records how it ended.

`python -m warpsmith.trainer.services.keeper RUN NAME LOG ADDRESS COMMAND...`, in its own session. Nothing waits for a
detached process, so without a keeper its exit code would be lost.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

import psutil  # type: ignore[import-untyped,unused-ignore]

from warpsmith.trainer.services.state import ServiceState

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
_NOT_STARTED = 127


def keep(run_dir: Path, name: str, log: Path, address: str | None, command: list[str]) -> int:
    """Run a service to its end; return its exit code."""
    stops: list[int] = []
    children: list[subprocess.Popen[bytes]] = []

    def forward(number: int, _frame: FrameType | None) -> None:
        stops.append(number)
        for child in children:
            child.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, forward)
    state = ServiceState(
        name, tuple(command), str(log), socket.gethostname(), os.getpid(), psutil.Process().create_time(),
        address=address,
    )  # fmt: skip
    state.write(run_dir)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab", buffering=0) as output:
        output.write(f"=== {name}, {datetime.now(UTC):%F %T} UTC: {' '.join(command)}\n".encode())
        try:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                preexec_fn=_die_with_keeper,  # noqa: PLW1509  it takes no lock that another thread could hold
            )  # fmt: skip
        except OSError as error:
            output.write(f"It did not start: {error}\n".encode())
            state.ended(_NOT_STARTED, stopped=False).write(run_dir)
            return _NOT_STARTED
        children.append(child)
        for early in list(stops):
            child.send_signal(early)
        replace(state, pid=child.pid).write(run_dir)
        code = child.wait()
    replace(state, pid=child.pid).ended(code, stopped=bool(stops)).write(run_dir)
    return code


def _die_with_keeper() -> None:
    """Ask the kernel for SIGTERM when the keeper dies, so that no service is left without one."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


if __name__ == "__main__":
    run_dir_, name_, log_, address_, *command_ = sys.argv[1:]
    raise SystemExit(abs(keep(Path(run_dir_), name_, Path(log_), address_ or None, command_)))
