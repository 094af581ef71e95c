"""What a detached run is doing: its services, its last step, its evaluation servers."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from warpsmith.records.last_words import tail_of
from warpsmith.records.reader import RunReader
from warpsmith.trainer.services.state import Condition, ServiceState, services_of

_HEALTH_S = 5.0
_SHOWN = ("reward_mean", "solved_rate", "loss", "speedup_mean")


@dataclass(frozen=True)
class ServiceStatus:
    """A service now.

    Attributes:
        name, condition, pid, code, log: see `ServiceState`.
        seconds: how long it has run, or ran.
        last_line: the last line of its log; empty if there is none.
        health: what `/health` of an evaluation server answers; None for others, or if it does not answer.
    """

    name: str
    condition: Condition
    pid: int | None
    code: int | None
    seconds: float
    log: str
    last_line: str
    health: Mapping[str, Any] | None


@dataclass(frozen=True)
class RunStatus:
    """A run now.

    Attributes:
        run: its directory.
        services: in the order of their start.
        step, steps: the last recorded step, 0 before the first, and the planned number; None if not known.
        step_age_s: seconds since the last step was recorded; None before the first.
        figures: some figures of the last step.
    """

    run: str
    services: tuple[ServiceStatus, ...]
    step: int
    steps: int | None
    step_age_s: float | None
    figures: Mapping[str, float]

    @property
    def is_well(self) -> bool:
        """Whether no service failed or was lost."""
        return all(service.condition not in ("failed", "lost") for service in self.services)


def status_of(run_dir: Path) -> RunStatus:
    """Return the status of a run that `up` started.

    Raises:
        ServiceError: it has no services, or a state file is damaged.
        SegmentError: its records are damaged.
    """
    services = tuple(_status(state) for state in services_of(run_dir))
    step, age, figures = _last_step(run_dir)
    return RunStatus(str(run_dir), services, step, _planned(run_dir), age, figures)


def _status(state: ServiceState) -> ServiceStatus:
    end = state.ended_at if state.ended_at is not None else time.time()
    serves = state.name.startswith("evaluator-") and state.condition == "running"
    return ServiceStatus(
        state.name, state.condition, state.pid, state.code, max(0.0, end - state.keeper_started), state.log,
        last_line(Path(state.log)), _health(state.address) if serves else None,
    )  # fmt: skip


def last_line(log: Path) -> str:
    """Return the last line of a log with text in it; empty if there is none."""
    try:
        lines = [line for line in tail_of(log).splitlines() if line.strip()]
    except OSError:
        return ""
    return lines[-1].strip() if lines else ""


def _health(address: str | None) -> Mapping[str, Any] | None:
    try:
        with urllib.request.urlopen(f"http://{address}/health", timeout=_HEALTH_S) as answer:
            found = json.load(answer)
            return found if isinstance(found, dict) else None
    except (OSError, urllib.error.URLError, ValueError):
        return None


def _last_step(run_dir: Path) -> tuple[int, float | None, dict[str, float]]:
    if not (run_dir / "records").is_dir():
        return 0, None, {}
    steps = RunReader(run_dir).table("steps", latest=True)
    if not steps.num_rows:
        return 0, None, {}
    last = steps.filter(pc.equal(steps["step"], pc.max(steps["step"]))).to_pylist()[-1]
    age = time.time() - last["started_at"].timestamp() - last["seconds"]
    metrics = dict(last["metrics"])
    return last["step"], max(0.0, age), {name: metrics[name] for name in _SHOWN if name in metrics}


def _planned(run_dir: Path) -> int | None:
    try:
        config = json.loads((run_dir / "config.json").read_text(encoding="utf-8"))
        return int(config["run"]["steps"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
