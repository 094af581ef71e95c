"""Progress of long work on stderr: a bar on a terminal, else a plain line for each finished item."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Reporter:
    """Reports progress. A context manager.

    Args:
        total: number of items.
        unit: name of the items, in the plural.
    """

    def __init__(self, total: int, unit: str, console: Console | None = None) -> None:
        self.total = total
        self._done, self._known = 0, 0
        self._console = console or Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        self._started = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal or total == 0,
        )
        self._task = self._bar.add_task("judging", total=total)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def done(self, name: str, result: str, *, known: bool = False) -> None:
        """Report one more finished item and its result.

        Args:
            name: the item.
            result: its result in a few words.
            known: whether the result was there before, so that it says nothing about the time of the others.
        """
        self._done += 1
        self._known += known
        if self._console.is_terminal:
            self._bar.update(self._task, advance=1, description=f"{name}: {result}"[:60])
        else:
            elapsed = time.monotonic() - self._started
            self._console.print(f"[{self._done}/{self.total}] {elapsed:.0f} s{self._left(elapsed)}  {name}: {result}")

    def _left(self, elapsed: float) -> str:
        """Return the estimated time left, for a line; empty until an item has taken time."""
        made = self._done - self._known
        return f", {elapsed / made * (self.total - self._done):.0f} s left" if made else ""

    def note(self, text: str) -> None:
        """Print a remark."""
        self._console.print(text)
