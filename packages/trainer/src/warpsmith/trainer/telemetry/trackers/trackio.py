"""Trackio: a local database, in TRACKIO_DIR or Hugging Face's cache, that `trackio show` displays."""

from collections.abc import Mapping
from typing import Any


class Trackio:
    """A run of Trackio.

    Args:
        project: the project.
        title: the run's name; a run of that name is continued.
        config: the run's settings.
    """

    name = "Trackio"

    def __init__(self, project: str, title: str, config: Mapping[str, Any]) -> None:
        import trackio

        self._run = trackio.init(project=project, name=title, config=dict(config), resume="allow", embed=False)

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Log a step."""
        self._run.log(dict(figures), step=step)

    def warn(self, title: str, text: str) -> None:
        """Show the warning as an alert."""
        self._run.alert(title=title, text=text)

    def close(self, code: int) -> None:
        """Write what is pending and end."""
        self._run.finish()
