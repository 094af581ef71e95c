"""Progress on the console: a bar on a terminal, periodic lines elsewhere."""

import io
import time
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from warpsmith.records import process_log

_LINE_EVERY_S = 10.0


class Bar:
    """A count towards a total.

    Args:
        title: what is counted.
        total: where it ends.
        shown: false on ranks without output.
        start: the initial count, for a resumed run.
    """

    def __init__(self, title: str, total: int, *, shown: bool = True, start: int = 0) -> None:
        self.title, self.total, self.done = title, total, start
        self._console = Console(file=process_log.screen() or io.StringIO())
        self._shown = shown
        self._last_line = time.monotonic()
        self._stack = ExitStack()
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("{task.fields[note]}"),
        )  # fmt: skip
        live = shown and self._console.is_terminal
        self._bar = Progress(*columns, console=self._console) if live else None
        if self._bar is not None:
            self._task = self._bar.add_task(title, total=total, completed=start, note="")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
            self._stack.callback(self._bar.stop)
            self._stack.enter_context(process_log.shown_by(self._print_above))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def advance(self, note: str = "", to: int | None = None) -> None:
        """Count one more (or up to `to`); show `note` next to it."""
        self.done = self.done + 1 if to is None else to
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, note=note)
        elif self._shown:
            self._line(note)

    def _line(self, note: str) -> None:
        now = time.monotonic()
        if self.done >= self.total or now - self._last_line >= _LINE_EVERY_S:
            self._last_line = now
            process_log.show(f"{self.title} {self.done}/{self.total} {note}")

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        if self._shown:
            process_log.show(text)

    def _print_above(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)
