"""The live display of a run on a terminal: progress, phases, recent figures with their trends, machine use."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from warpsmith.records.units import duration
from warpsmith.trainer.telemetry.evaluator_use import in_words
from warpsmith.trainer.telemetry.recent_steps import RecentWork

_BAR_WIDTH = 30
_TREND_WIDTH = 24
_BLOCKS = "▁▂▃▄▅▆▇█"
_COLOURS = {"collect": "cyan", "train": "magenta", "sync": "yellow"}
_SHOWN = (
    ("reward", "reward_mean", "{:.3f}"),
    ("aggregated return", "aggregated_return_mean", "{:.3f}"),
    ("solved", "solved_rate", "{:.1%}"),
    ("correct", "correct_rate", "{:.1%}"),
    ("compiled", "compiled_rate", "{:.1%}"),
    ("speedup, median", "speedup_p50", "{:.2f}x"),
    ("generator solved", "agent_generator/solved_rate", "{:.1%}"),
    ("optimizer over its start", "agent_optimizer/speedup_over_start_mean", "{:.2f}x"),
    ("completion, tokens", "completion_length_mean", "{:.0f}"),
    ("loss", "loss", "{:.3g}"),
    ("entropy", "entropy", "{:.3f}"),
)


def view(title: str, work: RecentWork, machine: Iterable[str] = ()) -> RenderableType:
    """Return the display of a run.

    Args:
        title: the run's name.
        work: its state.
        machine: phrases on the use of the machine, for example `GPU 0 87 %`.
    """
    rows: list[RenderableType] = [_progress(work), _phase(work)]
    if work.figures:
        rows += [_phases(work), _figures(work)]
    last = work.figures[-1] if work.figures else {}
    for used in (_rates(work), [*machine, *in_words(last)]):
        if line := " · ".join(used):
            rows.append(Text(line, style="dim"))
    if work.warning:
        rows.append(Text(f"last warning: {work.warning}", style="yellow"))
    return Panel(Group(*rows), title=Text(title, style="bold"), title_align="left", padding=(0, 1))


def trend(values: Sequence[float], width: int = _TREND_WIDTH) -> str:
    """Return the last `width` values as blocks between their minimum and maximum; empty for fewer than two."""
    shown = [value for value in values if math.isfinite(value)][-width:]
    if len(shown) < 2:
        return ""
    # Halves, since the difference of two floats can exceed the largest one.
    low, span = min(shown) / 2, max(shown) / 2 - min(shown) / 2
    top = len(_BLOCKS) - 1
    return "".join(_BLOCKS[round((value / 2 - low) / span * top) if span else top // 2] for value in shown)


def _progress(work: RecentWork) -> RenderableType:
    line = Table.grid(padding=(0, 1))
    line.add_row(
        Text(f"step {work.done} of {work.steps}", style="bold"),
        ProgressBar(total=max(work.steps, 1), completed=work.done, width=_BAR_WIDTH),
        Text(f"{duration(work.clock() - work.began)} so far"),
        Text(_left(work)),
    )
    return line


def _left(work: RecentWork) -> str:
    if work.done >= work.steps:  # An evaluation may follow, and no step shows how long that takes.
        return ""
    left = work.left_s()
    if left is not None:
        return f"about {duration(left)} left"
    sampling = work.rollouts_left_s()
    return "" if sampling is None else f"about {duration(sampling)} of rollouts left if none ends early"


def _phase(work: RecentWork) -> RenderableType:
    now = Text(f"now: {work.phase}").append(f", for {duration(work.clock() - work.phase_began)}", style="dim")
    batches = Table.grid(padding=(0, 1))
    for one in work.collections:
        if one.done < one.trajectories:
            bar = ProgressBar(total=one.trajectories, completed=one.done, width=_BAR_WIDTH)
            batches.add_row(Text(f"  {one.label}"), bar, Text(f"{one.done} of {one.trajectories} trajectories"))
    return Group(now, batches) if batches.rows else now


def _phases(work: RecentWork) -> RenderableType:
    """Return the phases of the last step, as parts of one bar."""
    seconds = work.phases()
    total = sum(seconds.values()) or 1.0
    text = Text("last step: ")
    for name, spent in seconds.items():
        text.append("━" * max(1, round(spent / total * _BAR_WIDTH)), style=_COLOURS.get(name, "white"))
    for name, spent in seconds.items():
        text.append(f"  {name} {duration(spent)}", style=_COLOURS.get(name, "white"))
    return text


def _figures(work: RecentWork) -> RenderableType:
    table = Table(box=SIMPLE, show_header=False, padding=(0, 1), pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="cyan")
    table.add_column(style="dim")
    last = work.figures[-1]
    for label, name, form in _SHOWN:
        if name in last:
            by_turn = " ".join(form.format(value) for value in _by_turn(last, name))
            table.add_row(label, form.format(last[name]), trend(work.history(name)), by_turn and f"by turn {by_turn}")
    return table


def _by_turn(figures: Mapping[str, float], name: str) -> list[float]:
    found: list[float] = []
    while (key := f"turn_{len(found) + 1}/{name}") in figures:
        found.append(figures[key])
    return found if len(found) > 1 else []


def _rates(work: RecentWork) -> Iterator[str]:
    rates = work.rates()
    if rates is not None:
        tokens, evaluated, generated = rates
        yield f"sampling {tokens:,.0f} tokens/s"
        yield f"{generated:.1f} turns in generation"
        yield f"{evaluated:.1f} in evaluation"
