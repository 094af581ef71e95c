"""Rejects a run directory that another run uses."""

from warpsmith.trainer.config.sections import RunSection
from warpsmith.trainer.errors import ConfigError


def refuse_used(run: RunSection) -> None:
    """Check that a directory holds no run.

    Raises:
        ConfigError: it holds one.
    """
    if any((run.dir / name).exists() for name in ("records", "checkpoints", "final_model")):
        raise ConfigError(
            f"{run.dir} already holds a run.",
            "Pass --resume to resume it, or choose another directory with --set run.dir=....",
        )
