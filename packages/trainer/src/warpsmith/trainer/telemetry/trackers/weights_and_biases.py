"""Weights & Biases: files in the run's directory, or its server."""

import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from warpsmith.trainer.config.sections import RunSection, WandbSection
from warpsmith.trainer.errors import WandbError
from warpsmith.trainer.telemetry.wandb_view.layout import STEP, SUMMARIES

_IDENTITY: Final = "wandb-id.txt"


class WeightsAndBiases:
    """A run of W&B.

    Args:
        run: what `start_wandb` returned.
    """

    name = "W&B"

    def __init__(self, run: Any) -> None:
        self._run = run

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Log a step. It is a figure, since W&B's own step may not fall, and a resumed run repeats some."""
        self._run.log({**figures, STEP: step})

    def warn(self, title: str, text: str) -> None:
        """Show a warning on the run's page and alert subscribers."""
        self._run.alert(title=title, text=text, level="WARN", wait_duration=0)

    def close(self, code: int) -> None:
        """Finish the run, and W&B's own process."""
        import wandb

        try:
            self._run.finish(exit_code=code)
        finally:
            # Here and not at the process's end, where W&B would raise unhandled errors.
            wandb.teardown(code)


def start_wandb(run: RunSection, section: WandbSection, config: Mapping[str, Any]) -> Any:
    """Return W&B's run, or None where it is disabled; WandbError if it cannot begin."""
    if section.mode == "disabled":
        return None
    os.environ.setdefault("WANDB_SILENT", "true")
    import wandb
    from wandb.errors import Error

    try:
        started = wandb.init(
            mode=section.mode,
            project=section.project,
            name=run.title,
            id=identity(run.dir / _IDENTITY),
            resume="allow" if section.mode == "online" else None,
            dir=str(run.dir),
            tags=list(section.tags),
            config=dict(config),
            settings=wandb.Settings(console="off", x_disable_stats=True, disable_git=True, disable_code=True),
        )
        _define(started)
        return started
    except Error as error:
        raise WandbError(
            f"W&B cannot start its run: {error}.", 'Fix that, or set wandb.mode = "offline" and sync it later.'
        ) from error


def _define(run: Any) -> None:
    """Tell W&B the horizontal axis, and what a table of runs shows: the last value, and for some figures the best."""
    run.define_metric(STEP, hidden=True)
    run.define_metric("*", step_metric=STEP)
    for name, aggregate in SUMMARIES.items():
        run.define_metric(name, step_metric=STEP, summary=f"{aggregate},last")


def identity(path: Path) -> str:
    """Return the run's W&B id, the same over all its starts."""
    if not path.is_file():
        path.write_text(uuid.uuid4().hex[:12], encoding="utf-8")
    return path.read_text(encoding="utf-8").strip()
