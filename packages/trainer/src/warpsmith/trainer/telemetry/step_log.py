"""Logs steps: a row of the `steps` table, trackers, and a file with the run's configuration."""

import json
import math
from collections.abc import Mapping
from datetime import datetime
from types import TracebackType
from typing import Self

from pydantic import BaseModel

from warpsmith.records.schema import STEPS, steps_batch
from warpsmith.records.writer import RunWriter
from warpsmith.trainer.config.sections import RunSection, TrackersSection, WandbSection
from warpsmith.trainer.telemetry import step_spans
from warpsmith.trainer.telemetry.run_facts import write_start
from warpsmith.trainer.telemetry.trackers.opening import open_trackers

_COLUMNS = frozenset(STEPS.names) - {"run", "step", "weight_version", "started_at", "seconds", "metrics"}


class StepLog:
    """Writes steps; for rank 0 only, as a context manager.

    Args:
        writer: the run's records.
        run: directory and title.
        wandb: settings of Weights & Biases.
        config: written to `config.json` in the run directory, and passed to trackers. `start.json` next to it has the
            command and versions.
        trackers: settings of other trackers; none by default.

    If a tracker fails during the run, this is reported once and the run continues without it: the `steps` table has
    all.
    """

    def __init__(
        self,
        writer: RunWriter,
        run: RunSection,
        wandb: WandbSection,
        config: BaseModel,
        trackers: TrackersSection | None = None,
    ) -> None:
        self._writer = writer
        self._title = run.title
        plain = config.model_dump(mode="json")
        run.dir.mkdir(parents=True, exist_ok=True)
        write_start(run.dir)
        (run.dir / "config.json").write_text(json.dumps(plain, indent=2) + "\n", encoding="utf-8")
        self._trackers = open_trackers(run, wandb, trackers or TrackersSection(), plain)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._trackers.close(0 if kind is None else 1)

    def step(
        self, step: int, *, weight_version: int, started_at: datetime, seconds: float, figures: Mapping[str, float]
    ) -> None:
        """Record one step.

        Args:
            step: step number, from 1.
            weight_version: version of the weights after the step.
            started_at: start time, with a time zone.
            seconds: wall time.
            figures: those named like a column of STEPS fill that column; all go into `metrics`.
        """
        known = {name: value for name, value in figures.items() if math.isfinite(value)}
        row = {
            "run": self._title,
            "step": step,
            "weight_version": weight_version,
            "started_at": started_at,
            "seconds": seconds,
            **{name: value for name, value in known.items() if name in _COLUMNS},
            "metrics": known,
        }
        self._writer.append("steps", steps_batch([row]))
        step_spans.add_phases(started_at, known)
        logged = {**known, "weight_version": weight_version, "seconds": seconds}
        self._trackers.log(step, logged)

    def held_out(self, step: int, figures: Mapping[str, float]) -> None:
        """Send the figures of a held-out evaluation after `step` steps to trackers; `summary.json` has them too."""
        logged = {f"held_out/{name}": value for name, value in figures.items() if math.isfinite(value)}
        self._trackers.log(step, logged)

    def warn(self, title: str, text: str) -> None:
        """Send a warning to trackers; W&B shows it on the run's page and alerts subscribers."""
        self._trackers.warn(title, text)
