"""Summaries and reports as text for a terminal, and as dicts for JSON."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from warpsmith.records.progress import Improvement, TurnProgress
from warpsmith.records.reader import SegmentReport
from warpsmith.records.summary import RunSummary, TrajectoryFigures


def print_summary(console: Console, name: str, figures: RunSummary) -> None:
    """Print one part's figures: averages, turns, best trajectories."""
    console.print(name, style="bold")
    _print_averages(console, figures)
    _print_turns(console, figures)
    _print_progress(console, figures.progress)
    if figures.top:
        _print_top(console, figures.top)


def print_reports(console: Console, reports: Sequence[SegmentReport]) -> None:
    """Print what each segment holds, what is wrong with it, and totals."""
    for report in reports:
        state = "closed" if report.closed else "not closed"
        console.print(f"{report.path}: {report.batches} batches, {report.rows} rows, {state}")
        if report.torn:
            console.print(f"  torn: {report.torn}")
        for error in report.damage:
            console.print(f"  damaged: {error}")
    torn, damaged = sum(report.torn is not None for report in reports), sum(len(report.damage) for report in reports)
    console.print(f"{len(reports)} segments, {torn} torn at the end, {damaged} damaged batches or entries")


def report_dict(report: SegmentReport) -> dict[str, Any]:
    """A segment's report as plain values."""
    return {
        "table": report.table,
        "path": str(report.path),
        "batches": report.batches,
        "rows": report.rows,
        "stream_bytes": report.stream_bytes,
        "closed": report.closed,
        "torn_stream_bytes": report.torn.stream_bytes if report.torn else 0,
        "torn_journal_bytes": report.torn.journal_bytes if report.torn else 0,
        "damage": [str(error) for error in report.damage],
    }


def number(value: float | None, unit: str = "", digits: int = 3) -> str:
    """The value with `digits` decimals and its unit; a dash for None."""
    return "-" if value is None else f"{value:.{digits}f}{unit}"


def percent(value: float | None) -> str:
    """The rate in percent; a dash for None."""
    return "-" if value is None else f"{value:.1%}"


def _print_averages(console: Console, figures: RunSummary) -> None:
    table = _plain("", "")
    table.add_row("trajectories", str(figures.trajectories))
    table.add_row("turns (invalid)", f"{figures.turns} ({figures.invalid_turns})")
    table.add_row("average turns per trajectory", number(figures.turns_mean, digits=2))
    table.add_row("average aggregated return", number(figures.aggregated_return_mean))
    table.add_row("final correctness rate", percent(figures.final_correct_rate))
    table.add_row("improvement rate", percent(figures.improvement_rate))
    table.add_row("average speedup", number(figures.speedup_mean, "x", digits=2))
    for p, rate in figures.fast_p.items():
        table.add_row(f"fast_{p}", percent(rate))
    console.print(table)


def _print_turns(console: Console, figures: RunSummary) -> None:
    table = _plain("turn", "trajectories", "reward", "compiled", "correct", "speedup")
    for turn in figures.by_turn:
        table.add_row(
            str(turn.turn_number),
            str(turn.trajectories),
            number(turn.reward_mean),
            percent(turn.compiled_rate),
            percent(turn.correct_rate),
            number(turn.speedup_mean, "x", digits=2),
        )
    console.print(table)


def _print_progress(console: Console, progress: Sequence[TurnProgress]) -> None:
    table = _plain("turn", "first solved", "solved by", "reward to next turn", "if solved", "if not solved")
    for turn in progress:
        gains = (turn.improvement, turn.improvement_solved, turn.improvement_unsolved)
        table.add_row(str(turn.turn_number), percent(turn.first_solved), percent(turn.solved_by), *map(_gain, gains))
    console.print(table)


def _gain(found: Improvement) -> str:
    return "-" if found.mean is None else f"{found.mean:+.3f} ({found.trajectories})"


def _print_top(console: Console, top: Sequence[TrajectoryFigures]) -> None:
    table = _plain("best trajectories", "problem", "aggregated return", "rewards", "improvement", "correct", "speedups")
    for one in top:
        table.add_row(
            one.trajectory,
            one.problem,
            number(one.aggregated_return),
            " ".join(f"{reward:.2f}" for reward in one.rewards),
            f"{one.improvement:+.3f}",
            " ".join("✓" if correct else "✗" for correct in one.correct),
            " ".join(number(speedup, "x", digits=2) for speedup in one.speedups),
        )
    console.print(table)


def _plain(*headings: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=any(headings))
    for heading in headings:
        # Long names are folded, words of a heading are not.
        table.add_column(heading, overflow="fold", min_width=max(map(len, heading.split()), default=0))
    return table
