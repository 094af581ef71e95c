"""The directory of a run: made for a new one, found for a resumed one, never mixed."""

from pathlib import Path

from warpsmith.trainer import checkpoint
from warpsmith.trainer.config.sections import RunSection
from warpsmith.trainer.engine.ranks import Ranks
from warpsmith.trainer.errors import ConfigError


def prepare(run: RunSection, ranks: Ranks, resume: bool) -> Path:
    """Make the run's directory; collective.

    Raises:
        ConfigError: a new run would write into the directory of another one.
        CheckpointError: there is nothing to resume.
    """
    if resume:
        checkpoint.latest(run.dir)
    elif ranks.shared(lambda: _is_used(run.dir)):
        raise ConfigError(
            f"{run.dir} holds a run already.",
            "Pass --resume to go on with it, or choose another directory with --set run.dir=....",
        )
    if ranks.drives:
        run.dir.mkdir(parents=True, exist_ok=True)
    ranks.barrier()
    return run.dir


def _is_used(directory: Path) -> bool:
    return any((directory / name).exists() for name in ("records", "checkpoints", "final_model"))
