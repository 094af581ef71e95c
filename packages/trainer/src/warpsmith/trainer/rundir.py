"""The directory of a run: made for a new one, found for a resumed one, never mixed."""

from pathlib import Path
from typing import TYPE_CHECKING

from warpsmith.trainer import checkpoint
from warpsmith.trainer.config.sections import RunSection
from warpsmith.trainer.errors import ConfigError

if TYPE_CHECKING:
    from warpsmith.trainer.engine.ranks import Ranks


def prepare(run: RunSection, ranks: "Ranks", resume: bool) -> Path:
    """Make the run's directory; collective.

    Raises:
        ConfigError: a new run would write into the directory of another one.
        CheckpointError: there is nothing to resume.
    """
    if ranks.drives:
        if resume:
            checkpoint.latest(run.dir)
        else:
            refuse_used(run)
        run.dir.mkdir(parents=True, exist_ok=True)
    ranks.barrier()
    return run.dir


def refuse_used(run: RunSection) -> None:
    """Refuse a directory that holds a run.

    Raises:
        ConfigError: it does.
    """
    if any((run.dir / name).exists() for name in ("records", "checkpoints", "final_model")):
        raise ConfigError(
            f"{run.dir} holds a run already.",
            "Pass --resume to go on with it, or choose another directory with --set run.dir=....",
        )
