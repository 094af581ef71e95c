"""TensorBoard: event files in the run's directory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

FOLDER: Final = "tensorboard"


class TensorBoard:
    """Event files in `RUN/tensorboard`, one for each start of the run.

    Args:
        run_dir: the run's directory.
    """

    name = "TensorBoard"

    def __init__(self, run_dir: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(run_dir / FOLDER)

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Write a scalar for each figure."""
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)
        # A killed run must not lose what it has shown.
        self._writer.flush()

    def warn(self, title: str, text: str) -> None:
        """Write the warning as text."""
        self._writer.add_text("warnings", f"**{title}** {text}")

    def close(self, code: int) -> None:
        """Close the file."""
        self._writer.close()
