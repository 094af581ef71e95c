"""The interface of a tracker, and the group that a run logs to."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from warpsmith.records import process_log


class Tracker(Protocol):
    """Shows steps. Its methods may raise anything: it is then left out, and the run continues.

    Attributes:
        name: its name in messages.
    """

    name: str

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Show the figures of a step; all are finite. A step may be logged several times, with other figures."""

    def warn(self, title: str, text: str) -> None:
        """Show a warning, if it can."""

    def close(self, code: int) -> None:
        """Write what is pending and end; `code` is 0 if the run ended well."""


class Trackers:
    """Sends to each tracker; at its first failure prints a message and leaves it out.

    Args:
        trackers: the trackers, which it closes.
    """

    def __init__(self, trackers: Sequence[Tracker]) -> None:
        self._trackers = list(trackers)

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Show the figures of a step."""
        self._send(lambda tracker: tracker.log(step, figures))

    def warn(self, title: str, text: str) -> None:
        """Show a warning."""
        self._send(lambda tracker: tracker.warn(title, text))

    def close(self, code: int) -> None:
        """Close all."""
        self._send(lambda tracker: tracker.close(code))
        self._trackers = []

    def _send(self, send: Callable[[Tracker], None]) -> None:
        for tracker in list(self._trackers):
            try:
                send(tracker)
            except Exception as error:  # noqa: BLE001  Trackers raise many kinds of errors, none worth ending the run.
                self._trackers.remove(tracker)
                what = f"{type(error).__name__}: {error}"
                process_log.show(
                    f"{tracker.name} failed ({what}); the run continues without it, its own tables have all steps."
                )
                self._release(tracker)

    @staticmethod
    def _release(tracker: Tracker) -> None:
        """Close a tracker that failed, so that it raises nothing at the end of the process."""
        try:
            tracker.close(1)
        except Exception as error:  # noqa: BLE001  It has failed already, and that was said.
            process_log.show(f"{tracker.name} cannot be closed either ({type(error).__name__}: {error}).")
