"""What the live page asks about its runs, brought up to date at most once a second."""

import threading
import time
from collections.abc import Sequence
from typing import Any, Final

from warpsmith.records.errors import WarpsmithError
from warpsmith.records.follower import Follower
from warpsmith.records.live.comparison import comparison
from warpsmith.records.reader import RunReader
from warpsmith.records.report import columns
from warpsmith.records.report.columns import Chunk
from warpsmith.records.report.details import Details
from warpsmith.records.report.overview import overview
from warpsmith.records.report.static import readings, wire_turns

REFRESH_S: Final = 1.0
_READINGS: Final = 3


class LiveRun:
    """One run: its follower, and the chunks and overview of the state last read. Used under the lock of `LiveRuns`."""

    def __init__(self, reader: RunReader, by: str | None = None) -> None:
        self._by = by
        self.follower = Follower(reader)
        self.details = Details(self.follower)
        self.turns: list[Chunk] = []
        self.steps: list[Chunk] = []
        self.version = 0
        self._overview: tuple[int, dict[str, Any]] | None = None
        self._encode()
        # So that the first page need not wait for it.
        self.overview()

    @property
    def name(self) -> str:
        """Name of the run's directory."""
        return self.follower.reader.run_dir.resolve().name

    def refresh(self) -> None:
        """Read what was recorded since."""
        if self.follower.refresh():
            self._encode()

    def overview(self) -> dict[str, Any]:
        """Return the first screen of the state last read."""
        if self._overview is None or self._overview[0] != self.version:
            found = overview(self.follower, self._by)
            found["readings"] = [vars(reading) for reading in readings(self.follower.turns, _READINGS)]
            self._overview = (self.version, found)
        return self._overview[1]

    def _encode(self) -> None:
        self.turns = columns.chunks(wire_turns(self.follower.turns))
        self.steps = columns.chunks(columns.flat_steps(self.follower.steps))
        self.version += 1


class LiveRuns:
    """The runs that a server shows, by number. Safe to call from several threads.

    Args:
        readers: one per run.
        by: a column of `parts.GROUPINGS` by which pages show the figures too.

    Raises:
        UsageError: `by` is not such a column.
    """

    def __init__(self, readers: Sequence[RunReader], *, by: str | None = None) -> None:
        self._lock = threading.Lock()
        self._runs = [LiveRun(reader, by) for reader in readers]
        self._read_at = time.monotonic()

    def state(self) -> dict[str, Any]:
        """Return names, and versions of all chunks, after reading what was recorded since."""
        with self._lock:
            if time.monotonic() - self._read_at >= REFRESH_S:
                for run in self._runs:
                    run.refresh()
                self._read_at = time.monotonic()
            return {
                "runs": [
                    {
                        "id": number,
                        "name": self._named(number),
                        "version": run.version,
                        "turns": [chunk.version for chunk in run.turns],
                        "steps": [chunk.version for chunk in run.steps],
                    }
                    for number, run in enumerate(self._runs)
                ]
            }

    def overview(self, run: int) -> dict[str, Any]:
        """Return a run's first screen. Raises IndexError."""
        with self._lock:
            return self._run(run).overview() | {"name": self._named(run)}

    def chunk(self, run: int, table: str, number: int) -> bytes:
        """Return a chunk of `turns` or `steps`. Raises IndexError and KeyError."""
        with self._lock:
            found = self._run(run)
            chunks = {"turns": found.turns, "steps": found.steps}[table]
            return chunks[number].data

    def trajectory(self, run: int, key: str) -> dict[str, Any] | None:
        """Return a trajectory with its texts, or None. Raises IndexError."""
        with self._lock:
            return next(iter(self._run(run).details.trajectories([key])), None)

    def compare(self) -> dict[str, Any]:
        """Return all runs side by side."""
        with self._lock:
            found = comparison([run.follower.turns for run in self._runs])
            for entry in found["runs"]:
                entry["name"] = self._named(entry["id"])
            return found

    def _run(self, number: int) -> LiveRun:
        if not 0 <= number < len(self._runs):
            raise IndexError(number)
        return self._runs[number]

    def _named(self, number: int) -> str:
        """The directory's name, with its parents where two runs have the same."""
        run = self._runs[number]
        if [other.name for other in self._runs].count(run.name) == 1:
            return run.name
        return "/".join(run.follower.reader.run_dir.resolve().parts[-2:])


def refusal(error: WarpsmithError) -> dict[str, str]:
    """Return an error as the page shows it."""
    return {"error": str(error)}
