"""Ends services: the trainer first, which finishes its step and writes a checkpoint."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psutil  # type: ignore[import-untyped,unused-ignore]

from warpsmith.trainer.services.state import ServiceState, file_of, read, services_of

_POLL_S: Final = 0.2
_REPORT_EVERY_S: Final = 30.0
_KILL_AFTER_S: Final = 20.0


def stop_all(run_dir: Path, *, timeout_s: float, now: bool, say: Callable[[str], None]) -> list[ServiceState]:
    """End the services of a run on this machine, the last one started first; return their states.

    Args:
        run_dir: the run's directory.
        timeout_s: time for the trainer to finish its step and write a checkpoint.
        now: end the trainer at once, without a checkpoint.
        say: prints a line.

    Raises:
        ServiceError: the run has no services, or a state file is damaged.
    """
    for state in reversed(services_of(run_dir)):
        patience = timeout_s if state.name == "trainer" and not now else 0.0 if now else _KILL_AFTER_S
        stop(run_dir, state.name, timeout_s=patience, say=say)
    return services_of(run_dir)


def stop(run_dir: Path, name: str, *, timeout_s: float, say: Callable[[str], None]) -> None:
    """End one service: SIGINT, after `timeout_s` SIGTERM, and after 20 s more SIGKILL to all of its processes."""
    state = read(file_of(run_dir, name))
    keeper = state.keeper_process() if state.condition == "running" else None
    if keeper is None:
        return
    family = [keeper, *_descendants(keeper)]
    if timeout_s > 0:
        keeper.send_signal(signal.SIGINT)
        say(f"{name}: asked to end" + (", after this step and a checkpoint" if name == "trainer" else ""))
    if not (timeout_s > 0 and _gone(keeper, timeout_s, name, say)):
        say(f"{name}: ending it now")
        keeper.send_signal(signal.SIGTERM)
        if not _gone(keeper, _KILL_AFTER_S, name, say):
            say(f"{name}: killing it")
    # Processes that ignored the signals, or lost their parent on the way.
    for process in [*family, *_descendants(keeper)]:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def _gone(process: psutil.Process, seconds: float, name: str, say: Callable[[str], None]) -> bool:
    """Wait for the end of a process, and say every half minute that it is awaited."""
    began = last_said = time.monotonic()
    while _lives(process):
        now = time.monotonic()
        if now - began >= seconds:
            return False
        if now - last_said >= _REPORT_EVERY_S:
            last_said = now
            say(f"{name}: still ending, {now - began:.0f} s of at most {seconds:.0f} s")
        time.sleep(_POLL_S)
    return True


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
