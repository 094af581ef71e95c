"""Refuses a run directory that is in use by another run."""

from warpsmith.trainer.config.sections import RunSection
from warpsmith.trainer.errors import ConfigError


def refuse_used(run: RunSection) -> None:
    """Refuse a directory that holds a run.

    Raises:
        ConfigError: it does.
    """
    if any((run.dir / name).exists() for name in ("records", "checkpoints", "final_model")):
        raise ConfigError(
            f"{run.dir} holds a run already.",
            "Pass --resume to resume it, or choose another directory with --set run.dir=....",
        )
