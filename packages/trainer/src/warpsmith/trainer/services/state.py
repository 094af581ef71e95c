"""The state file of each service of a run, RUN/services/NAME.json; only the service's keeper writes it."""

import json
import socket
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, Literal

import psutil  # type: ignore[import-untyped,unused-ignore]

from warpsmith.records.folders import write_file
from warpsmith.trainer.errors import ServiceError

FOLDER: Final = "services"
Condition = Literal["running", "ended", "failed", "lost", "elsewhere"]
"""`lost`: its keeper was killed, so how it ended is not known. `elsewhere`: on another host."""

_SAME_START_S: Final = 1.0
"""The kernel counts the start of a process in ticks, from a boot time that is adjusted."""


@dataclass(frozen=True)
class ServiceState:
    """What a keeper writes about its service.

    Attributes:
        name: unique in the run.
        command: what runs.
        log: where its output goes.
        host: the machine.
        keeper, keeper_started: pid of the keeper, and its start in seconds since 1970.
        pid: of the service; None before it started.
        ended_at: seconds since 1970; None while it runs.
        code: its exit code, negative for a signal; None while it runs.
        stopped: whether the keeper was asked to end it.
        address: where it listens, if it does.
    """

    name: str
    command: tuple[str, ...]
    log: str
    host: str
    keeper: int
    keeper_started: float
    pid: int | None = None
    ended_at: float | None = None
    code: int | None = None
    stopped: bool = False
    address: str | None = None

    @property
    def condition(self) -> Condition:
        """The service's current condition."""
        if self.code is not None:
            return "ended" if self.code == 0 or self.stopped else "failed"
        if self.host != socket.gethostname():
            return "elsewhere"
        return "running" if self.keeper_process() is not None else "lost"

    def keeper_process(self) -> psutil.Process | None:
        """Return the keeper if it is alive; another process with its pid does not count."""
        try:
            process = psutil.Process(self.keeper)
            same = abs(process.create_time() - self.keeper_started) < _SAME_START_S
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None

    def ended(self, code: int, *, stopped: bool) -> "ServiceState":
        """Return the state after the end of the service."""
        return replace(self, ended_at=time.time(), code=code, stopped=stopped)

    def write(self, run_dir: Path) -> None:
        """Write the state file in one step; OutputError if that is refused."""
        write_file(file_of(run_dir, self.name), json.dumps(asdict(self), indent=2) + "\n")


def file_of(run_dir: Path, name: str) -> Path:
    """Return the state file of a service."""
    return run_dir / FOLDER / f"{name}.json"


def read(path: Path) -> ServiceState:
    """Return the state in a file.

    Raises:
        ServiceError: it is damaged.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return ServiceState(**{**found, "command": tuple(found["command"])})
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ServiceError(
            f"{path} is not the state of a service: {error}.", "Remove it, and end the service by its pid if it runs."
        ) from error


def services_of(run_dir: Path) -> list[ServiceState]:
    """Return the services of a run in the order of their start.

    Raises:
        ServiceError: a state file is damaged, or the run was not started by `up`.
    """
    found = [read(path) for path in sorted((run_dir / FOLDER).glob("*.json"))]
    if not found:
        raise ServiceError(
            f"{run_dir} has no services: it is not the directory of a run that `up` started.",
            "Pass run.dir of the configuration; runs in the foreground are watched with `warpsmith-records serve`.",
        )
    return sorted(found, key=lambda state: state.keeper_started)
