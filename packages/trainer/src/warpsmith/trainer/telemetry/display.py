"""What a GRPO run shows: a live view on a terminal, a block of lines per step elsewhere, each turn on request."""

import io
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Literal, Self

from rich.console import Console, RenderableType
from rich.live import Live

from warpsmith.records import process_log
from warpsmith.records.units import duration
from warpsmith.rollout import console as turns_console
from warpsmith.trainer.telemetry import console
from warpsmith.trainer.telemetry.live_view import view
from warpsmith.trainer.telemetry.machine_use import MachineUse
from warpsmith.trainer.telemetry.recent_steps import RecentWork

ConsoleMode = Literal["auto", "live", "steps", "turns"]
Row = Mapping[str, Any]

_REFRESHES_PER_S = 4.0


class RunDisplay:
    """Shows a run's progress. A context manager; on ranks other than 0 it shows nothing.

    Args:
        title: the run's name.
        steps: the step at which the run ends.
        mode: `live` draws one view that is updated in place, with warnings and results above it; `steps` prints a
            block per step; `turns` prints each turn and trajectory too; `auto` is `live` on a terminal, else `steps`.
        shown: whether this rank shows anything.
        machine: the use of the machine, shown by the live view.
        step_turns: turns of a step if no trajectory ends early.
    """

    def __init__(
        self,
        title: str,
        steps: int,
        mode: ConsoleMode,
        *,
        shown: bool,
        machine: MachineUse | None = None,
        step_turns: int = 0,
    ) -> None:
        self._title, self._shown = title, shown
        self._console = Console(file=process_log.screen() or io.StringIO())
        if mode == "auto":
            mode = "live" if self._console.is_terminal and not self._console.is_dumb_terminal else "steps"
        self._mode = mode
        self.work = RecentWork(steps, step_turns=step_turns)
        self._time_said = False
        self._machine = machine
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if self._shown and self._mode == "live":
            live = Live(
                get_renderable=self._view, console=self._console, refresh_per_second=_REFRESHES_PER_S,
                redirect_stdout=False, redirect_stderr=False,
            )  # fmt: skip
            self._stack.enter_context(live)
            self._stack.enter_context(process_log.shown_by(self._print_above))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def say(self, text: str) -> None:
        """Print lines, above the live view if there is one."""
        if self._shown:
            process_log.show(text)

    def warn(self, text: str) -> None:
        """Print a warning; the live view keeps the last one."""
        self.work.warning = text
        self.say(f"warning: {text}")

    def enter(self, phase: str) -> None:
        """Show what the run is doing from now on."""
        self.work.enter(phase)

    def turn(self, row: Row) -> None:
        """Show that a turn has ended. `row` is its row of `turns`."""
        self.work.turn(row)
        if self._mode == "turns":
            self.say(turns_console.turn_line(row))
        self._say_time_once()

    def _say_time_once(self) -> None:
        """Say how long the rollouts will take, once enough turns show it; the steps themselves say it from then on."""
        if self._time_said or self._mode == "live" or self.work.left_s() is not None:
            return
        seconds = self.work.rollouts_left_s()
        if seconds is None:
            return
        self._time_said = True
        steps = self.work.steps - self.work.done
        self.say(
            f"Time: the rollouts of {steps} steps take about {duration(seconds)} if none ends early, plus updates."
        )

    def trajectory(self, rows: Sequence[Row]) -> None:
        """Show that a trajectory has ended."""
        self.work.trajectory()
        if self._mode == "turns":
            self.say(turns_console.trajectory_lines(rows))

    def step(self, step: int, figures: Mapping[str, float]) -> None:
        """Show that a step has ended, and its figures."""
        self.work.step(figures)
        if self._mode != "live":
            left = self.work.left_s()
            self.say(console.lines(step, figures, self.work.steps, None if left is None else duration(left)))

    def _view(self) -> RenderableType:
        return view(self._title, self.work, self._machine.phrases if self._machine else ())

    def _print_above(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)
