"""Logs steps: a row of the `steps` table, Weights & Biases, and a file with the run's configuration."""

import json
import math
import os
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import BaseModel

from warpsmith.records import process_log
from warpsmith.records.schema import STEPS, steps_batch
from warpsmith.records.writer import RunWriter
from warpsmith.trainer.config.sections import RunSection, WandbSection
from warpsmith.trainer.errors import WandbError
from warpsmith.trainer.telemetry.run_facts import write_start

_COLUMNS = frozenset(STEPS.names) - {"run", "step", "weight_version", "started_at", "seconds", "metrics"}
_IDENTITY = "wandb-id.txt"


class StepLog:
    """Writes steps; for rank 0 only, as a context manager.

    Args:
        writer: the run's records.
        run: directory and title.
        wandb: settings of Weights & Biases.
        config: written to `config.json` in the run directory, and passed to W&B. `start.json` beside it has the
            command and versions.

    If W&B fails during the run, this is reported once and the run continues without it: the `steps` table has all.
    """

    def __init__(self, writer: RunWriter, run: RunSection, wandb: WandbSection, config: BaseModel) -> None:
        self._writer = writer
        self._title = run.title
        plain = config.model_dump(mode="json")
        run.dir.mkdir(parents=True, exist_ok=True)
        write_start(run.dir)
        (run.dir / "config.json").write_text(json.dumps(plain, indent=2) + "\n", encoding="utf-8")
        self._wandb = start_wandb(run, wandb, plain)
        self._used_wandb = self._wandb is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        code = 0 if kind is None else 1
        self._to_wandb(lambda: self._wandb.finish(exit_code=code))
        if self._used_wandb:
            import wandb

            # Here and not at the process's end, where W&B would raise unhandled errors.
            self._guarded(lambda: wandb.teardown(code))

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
        logged = {**known, "weight_version": weight_version, "seconds": seconds}
        self._to_wandb(lambda: self._wandb.log(logged, step=step))

    def held_out(self, step: int, figures: Mapping[str, float]) -> None:
        """Send the figures of a held-out evaluation after `step` steps to W&B; `summary.json` has them too."""
        logged = {f"held_out/{name}": value for name, value in figures.items() if math.isfinite(value)}
        self._to_wandb(lambda: self._wandb.log(logged, step=step))

    def warn(self, title: str, text: str) -> None:
        """Send a warning to W&B, which shows it on the run's page and alerts subscribers."""
        self._to_wandb(lambda: self._wandb.alert(title=title, text=text, level="WARN", wait_duration=0))

    def _to_wandb(self, send: Callable[[], None]) -> None:
        if self._wandb is not None:
            self._guarded(send)

    def _guarded(self, send: Callable[[], None]) -> None:
        """Send something to W&B; at the first failure print a message and stop sending."""
        try:
            send()
        except Exception as error:  # noqa: BLE001  W&B raises many kinds of errors, none worth ending the run.
            if self._wandb is not None:
                what = f"{type(error).__name__}: {error}"
                process_log.show(f"W&B failed ({what}); the run continues without it, its own tables have all steps.")
            self._wandb = None


def start_wandb(run: RunSection, section: WandbSection, config: Mapping[str, Any]) -> Any:
    """Return W&B's run, or None where it is disabled; WandbError if it cannot begin."""
    if section.mode == "disabled":
        return None
    os.environ.setdefault("WANDB_SILENT", "true")
    import wandb
    from wandb.errors import Error

    try:
        return wandb.init(
            mode=section.mode,
            project=section.project,
            name=run.title,
            id=_identity(run.dir),
            resume="allow" if section.mode == "online" else None,
            dir=str(run.dir),
            tags=list(section.tags),
            config=dict(config),
            settings=wandb.Settings(console="off", x_disable_stats=True, disable_git=True, disable_code=True),
        )
    except Error as error:
        raise WandbError(
            f"W&B cannot start its run: {error}.", 'Fix that, or set wandb.mode = "offline" and sync it later.'
        ) from error


def _identity(run_dir: Path) -> str:
    """Return the run's W&B id, the same over all its starts."""
    path = run_dir / _IDENTITY
    if not path.is_file():
        path.write_text(uuid.uuid4().hex[:12], encoding="utf-8")
    return path.read_text(encoding="utf-8").strip()
