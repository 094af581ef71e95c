"""Prints the scores of a run as tables for a terminal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from rich.console import Console
from rich.table import Table

from warpsmith.evaluator.bench.scores import FASTER_THAN
from warpsmith.evaluator.bench.scoring import Answer, LevelScore, Speed
from warpsmith.evaluator.bench.trace_inputs import Answered
from warpsmith.evaluator.traces.dataset import DatasetFormat
from warpsmith.evaluator.verdict_lines import reference_name
from warpsmith.records.wording import counted, printable

SpeedOf = Callable[[LevelScore], Speed | None]

SHOWN_K: Final = frozenset({1, 2, 3, 4, 5, 8, 10, 16, 20, 25, 32, 50, 64, 100, 128, 200, 256})
"""The values of k printed for pass@k, besides the largest; summary.json has all."""

MOST_CANDIDATES: Final = 100
"""Maximum lines in the table of candidates."""

MEAN: Final = "geometric mean over the correct"

NOT_TIMED: Final = (
    "Nothing was timed (timing_tier is none, as on a CPU): there are no speedups and no fast_p except fast_0, which is "
    "the share of correct answers. They are absent, not zero."
)


@dataclass(frozen=True)
class Terms:
    """A dataset format's terms for its parts.

    Attributes:
        group: a part with a score of its own.
        problems, answers: what is solved, and what solves it.
        comparison: whether KernelBench's own comparison is meaningful for it.
    """

    group: str
    problems: str
    answers: str
    comparison: bool


KERNELBENCH: Final = Terms("level", "problems", "answers", comparison=True)
TRACES: Final = Terms("dataset", "definitions", "candidates", comparison=False)


def terms_of(format: DatasetFormat) -> Terms:
    """Return the terms for the parts of a dataset."""
    return KERNELBENCH if format == "kernelbench" else TRACES


def print_scores(
    console: Console, scores: Sequence[LevelScore], baseline: str | None = None, terms: Terms = KERNELBENCH
) -> None:
    """Print the scores of a run, one line per level.

    Args:
        console: where to.
        scores: the scores.
        baseline: the file of stored times, if there is one.
        terms: the dataset's words.
    """
    console.print(_counts(scores, terms))
    for score in scores:
        verdicts = ", ".join(f"{count} {status}" for status, count in score.statuses.items())
        rates = f"compiled {percent(score.compiled_rate)}, correct {percent(score.correct_rate)} of those counted"
        console.print(f"{terms.group} {level_name(score)}: {rates}; verdicts: {verdicts or 'none'}")
        if terms.comparison:
            console.print(
                f"level {level_name(score)}: KernelBench's default comparison, on get_inputs() unchanged, would "
                f"accept {score.passes_kernelbench} of {score.counted}"
            )
    if any(score.pass_at for score in scores):
        console.print(_passes(scores, terms))
    _print_speeds(console, scores, baseline, terms)


def _print_speeds(console: Console, scores: Sequence[LevelScore], baseline: str | None, terms: Terms) -> None:
    title = f"speedup over the reference, timed beside each candidate; {MEAN}"
    console.print(_speeds(scores, title, _own, terms))
    names = list(dict.fromkeys(name for score in scores for name in score.speed_over))
    for name in names if len(names) > 1 else ():
        title = f"speedup over {reference_name(name)} ({name}); {MEAN}"
        console.print(_speeds(scores, title, partial(_over, name=name), terms))
    if any(score.speed is None for score in scores):
        console.print(NOT_TIMED)
    _print_untimed(console, scores, terms)
    if baseline is not None and any(score.baseline_speed for score in scores):
        title = f"speedup over the STORED baseline {baseline}, not measured here; {MEAN}"
        console.print(_speeds(scores, title, _stored, terms))


def print_workloads(console: Console, answers: Sequence[Answer]) -> None:
    """Print one line for each candidate of a dataset of traces: its verdict, and how many workloads it got right."""
    table = _table("candidates")
    for column in ("definition", "candidate", "verdict"):
        table.add_column(column, overflow="fold")
    table.add_column("workloads correct", justify="right")
    for answer in answers[:MOST_CANDIDATES]:
        workloads = answer.verdict.workloads if answer.verdict else ()
        right = f"{sum(one.status == 'correct' for one in workloads)} of {len(workloads)}" if workloads else "-"
        status = answer.verdict.status if answer.verdict else answer.state
        candidate = answer.generation.name if isinstance(answer.generation, Answered) else ""
        table.add_row(printable(answer.problem.name), printable(candidate), status, right)
    console.print(table)
    if len(answers) > MOST_CANDIDATES:
        console.print(f"and {len(answers) - MOST_CANDIDATES} more candidates (report.html has all)")


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


def _counts(scores: Sequence[LevelScore], terms: Terms) -> Table:
    table = _table(
        terms.answers,
        *(terms.group, terms.problems, terms.answers),
        *("counted", "compiled", "correct", "missing", "invalid", "refused"),
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


def _passes(scores: Sequence[LevelScore], terms: Terms) -> Table:
    greatest = max(max(score.pass_at, default=0) for score in scores)
    shown = sorted({k for score in scores for k in score.pass_at if k in SHOWN_K or k == greatest})
    table = _table("pass@k, unbiased", terms.group, *(f"pass@{k}" for k in shown))
    for score in scores:
        table.add_row(level_name(score), *(percent(score.pass_at.get(k)) for k in shown))
    return table


def fast_0(score: LevelScore) -> float | None:
    """Return fast_0, which needs no timing: the share of correct answers."""
    return score.correct_rate


def _speeds(scores: Sequence[LevelScore], title: str, speed_of: SpeedOf, terms: Terms) -> Table:
    table = _table(title, terms.group, "n", *(f"fast_{p:g}" for p in FASTER_THAN), "geo. mean", "over")
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


def _print_untimed(console: Console, scores: Sequence[LevelScore], terms: Terms) -> None:
    for score in scores:
        if score.speed is not None and score.speed.untimed:
            console.print(
                f"{terms.group} {level_name(score)}: {counted(score.speed.untimed, 'correct answer')} without a time; "
                "they count as not faster, and the geometric mean leaves them out."
            )
