"""Prints the scores of a run as tables for a terminal."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from rich.console import Console
from rich.table import Table

from warpsmith.evaluator.bench.scores import FASTER_THAN
from warpsmith.evaluator.bench.scoring import LevelScore, Speed
from warpsmith.evaluator.verdict_lines import reference_name

SpeedOf = Callable[[LevelScore], Speed | None]

SHOWN_K: Final = frozenset({1, 2, 3, 4, 5, 8, 10, 16, 20, 25, 32, 50, 64, 100, 128, 200, 256})
"""The printed k of pass@k, besides the largest; summary.json has all."""

MEAN: Final = "geometric mean over the correct"

NOT_TIMED: Final = (
    "Nothing was timed (timing_tier is none, as on a CPU): there are no speedups and no fast_p except fast_0, which is "
    "the share of correct answers. They are absent, not zero."
)


def print_scores(console: Console, scores: Sequence[LevelScore], baseline: str | None = None) -> None:
    """Print the scores of a run, one line per level; `baseline` names the file of stored times, if there is one."""
    console.print(_counts(scores))
    for score in scores:
        verdicts = ", ".join(f"{count} {status}" for status, count in score.statuses.items())
        rates = f"compiled {percent(score.compiled_rate)}, correct {percent(score.correct_rate)} of those counted"
        console.print(f"level {level_name(score)}: {rates}; verdicts: {verdicts or 'none'}")
        console.print(
            f"level {level_name(score)}: KernelBench's default comparison, on get_inputs() unchanged, would "
            f"accept {score.passes_kernelbench} of {score.counted}"
        )
    if any(score.pass_at for score in scores):
        console.print(_passes(scores))
    console.print(_speeds(scores, f"speedup over the reference, timed beside each candidate; {MEAN}", _own))
    names = list(dict.fromkeys(name for score in scores for name in score.speed_over))
    for name in names if len(names) > 1 else ():
        console.print(
            _speeds(scores, f"speedup over {reference_name(name)} ({name}); {MEAN}", partial(_over, name=name))
        )
    if any(score.speed is None for score in scores):
        console.print(NOT_TIMED)
    _print_untimed(console, scores)
    if baseline is not None and any(score.baseline_speed for score in scores):
        console.print(
            _speeds(scores, f"speedup over the STORED baseline {baseline}, not measured here; {MEAN}", _stored)
        )


def _own(score: LevelScore) -> Speed | None:
    return score.speed


def _over(score: LevelScore, name: str) -> Speed | None:
    return score.speed_over.get(name)


def _stored(score: LevelScore) -> Speed | None:
    return score.baseline_speed


def level_name(score: LevelScore) -> str:
    """Return the name of a score in a table: its level, or `all`."""
    return "all" if score.level is None else str(score.level)


def percent(value: float | None) -> str:
    """Return a share in percent, or a dash."""
    return "-" if value is None else f"{100 * value:.1f} %"


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _counts(scores: Sequence[LevelScore]) -> Table:
    table = _table(
        "answers",
        *("level", "problems", "answers", "counted", "compiled", "correct", "missing", "invalid", "refused"),
    )
    for score in scores:
        table.add_row(
            level_name(score),
            str(score.problems),
            str(score.answers),
            str(score.counted),
            str(score.compiled),
            str(score.correct),
            str(score.missing),
            str(score.invalid),
            str(score.refused),
        )
    return table


def _passes(scores: Sequence[LevelScore]) -> Table:
    greatest = max(max(score.pass_at, default=0) for score in scores)
    shown = sorted({k for score in scores for k in score.pass_at if k in SHOWN_K or k == greatest})
    table = _table("pass@k, unbiased", "level", *(f"pass@{k}" for k in shown))
    for score in scores:
        table.add_row(level_name(score), *(percent(score.pass_at.get(k)) for k in shown))
    return table


def fast_0(score: LevelScore) -> float | None:
    """Return fast_0, which needs no timing: the share of correct answers."""
    return score.correct_rate


def _speeds(scores: Sequence[LevelScore], title: str, speed_of: SpeedOf) -> Table:
    table = _table(title, "level", "n", *(f"fast_{p:g}" for p in FASTER_THAN), "geo. mean", "over")
    for score in scores:
        speed = speed_of(score)
        if speed is None:
            first = percent(fast_0(score)) if speed_of is _own else "-"
            table.add_row(level_name(score), str(score.counted), first, *["-"] * (len(FASTER_THAN) - 1), "-", "-")
            continue
        mean = "-" if speed.geometric_mean is None else f"{speed.geometric_mean:.3f}x"
        shares = (percent(share) for share in speed.fast_p.values())
        table.add_row(level_name(score), str(speed.n), *shares, mean, str(speed.over))
    return table


def _print_untimed(console: Console, scores: Sequence[LevelScore]) -> None:
    for score in scores:
        if score.speed is not None and score.speed.untimed:
            console.print(
                f"Level {level_name(score)}: {score.speed.untimed} correct answers have no time; they count as not "
                "faster, and the geometric mean leaves them out."
            )
