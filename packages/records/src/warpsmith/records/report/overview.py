"""The first screen of a run as plain values: its result in a sentence, four figures, tables and curves."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from warpsmith.records._version import __version__
from warpsmith.records.follower import Follower
from warpsmith.records.parts import STAGE, TRAIN, Part, parts_of
from warpsmith.records.report import columns
from warpsmith.records.report.facts import configuration, extent, facts
from warpsmith.records.report.held_out import Gain, gain, recorded_figures
from warpsmith.records.report.trends import trends
from warpsmith.records.summary import RunSummary, summarize_turns
from warpsmith.records.units import duration

_LEAST_VISIBLE: Final = 0.0005
"""Shares that differ by less are the same at the precision of the page."""


@dataclass(frozen=True)
class PartFigures:
    """Figures of one part."""

    part: Part
    summary: RunSummary

    @property
    def solved_by_turn(self) -> tuple[float, ...]:
        """Share of trajectories with a correct turn among their first k, for k = 1, 2, ..."""
        return tuple(progress.solved_by for progress in self.summary.progress)

    @property
    def solved(self) -> float | None:
        """Share of trajectories with a correct turn."""
        return self.solved_by_turn[-1] if self.solved_by_turn else None

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        summary = asdict(self.summary)
        summary.pop("top")
        return {
            "label": self.part.label,
            "role": self.part.role,
            "after_step": self.part.after_step,
            **summary,
            "solved": self.solved,
            "solved_by_turn": self.solved_by_turn,
            "multi_turn": multi_turn_sentence(self),
        }


def overview(follower: Follower, by: str | None = None) -> dict[str, Any]:
    """Return what the page's first screen shows, ready for JSON.

    Args:
        follower: the run.
        by: a column of `parts.GROUPINGS`: also the figures of parts split by it. By default `stage`, in a run that
            has reached more than one.

    Raises:
        UsageError: `by` is not one of `parts.GROUPINGS`.
        ReportError: a file next to the records does not have the form in docs/records.md.
    """
    run_dir, turns = follower.reader.run_dir, follower.turns
    parts = parts_of(turns)
    by = by or _worth_splitting_by(turns)
    ordered = turns.sort_by([("run", "ascending"), ("trajectory", "ascending"), ("turn", "ascending")])
    by_part = [_figures(ordered, part) for part in parts]
    gained = gain(turns, parts)
    steps = columns.flat_steps(follower.steps)
    config = configuration(run_dir)
    _, seconds = extent(turns, steps)
    found = {
        "name": run_dir.resolve().name,
        "made_at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "records_version": __version__,
        "headline": headline(gained, turns),
        "facts": facts(run_dir, config, turns, steps),
        "figures": _four(gained, by_part, follower.steps, seconds),
        "parts": [figures.to_dict() for figures in by_part],
        "by": by,
        "parts_by": [_figures(ordered, part).to_dict() for part in parts_of(turns, by=by)] if by else [],
        "held_out": [figure.to_dict() for figure in recorded_figures(run_dir)],
        "trends": [trend.to_dict() for trend in trends(turns, follower.credits, follower.steps, parts)],
        "config": [[key, _spoken(value)] for key, value in config.items()],
        "torn": [str(torn) for torn in follower.reader.torn],
        "damage": [str(error) for error in follower.reader.damage],
        "turns": turns.num_rows,
        "trajectories": pc.count_distinct(turns.column("key")).as_py(),
    }
    return finite(found)  # type: ignore[no-any-return]


def _worth_splitting_by(turns: pa.Table) -> str | None:
    return STAGE if pc.count_distinct(turns.column(STAGE)).as_py() > 1 else None


def headline(gained: Gain | None, turns: pa.Table) -> dict[str, str]:
    """Return the result as one sentence, and its direction: `up`, `down`, `flat` or `none`."""
    if gained is None:
        return {"text": _without_evaluations(turns), "tone": "none"}
    after = gained.last.after_step
    steps = f"{after} step" if after == 1 else f"{after} steps"
    text = f"Held-out problems solved: {gained.before:.1%} before training, {gained.after:.1%} after {steps}"
    change = gained.change
    if change is None:
        return {"text": f"{text}; the evaluations share no problem.", "tone": "none"}
    text += f": {_points(change.mean)} points"
    if change.low is None or change.high is None:
        return {"text": f"{text} on one problem, so without an interval.", "tone": "none"}
    text += f" (95 % interval {_points(change.low)} to {_points(change.high)}, {change.problems} problems)."
    if change.low > 0 or change.high < 0:
        return {"text": text, "tone": "up" if change.low > 0 else "down"}
    return {"text": f"{text} The interval includes no change.", "tone": "flat"}


def multi_turn_sentence(figures: PartFigures) -> str:
    """Say what turns after the first add to the share of solved trajectories; empty for one turn."""
    solved = figures.solved_by_turn
    if len(solved) < 2:
        return ""
    later, s = ("Turn 2", "s") if len(solved) == 2 else (f"Turns 2 to {len(solved)}", "")
    if solved[-1] - solved[0] < _LEAST_VISIBLE:
        return f"{later} solve{s} nothing more: {solved[0]:.1%} with one turn and with all."
    shares, added = ", ".join(f"{share:.1%}" for share in solved), solved[-1] - solved[0]
    return (
        f"{later} add{s} {_points(added)} points: solved within 1 to {len(solved)} turns {shares}. That is "
        f"{added / (1 - solved[0]):.1%} of what turn 1 does not solve."
    )


def finite(value: Any) -> Any:
    """Return plain values with None for numbers that JSON does not have, and strings that UTF-8 can encode."""
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple) and not (value and isinstance(value[0], int)):
        return [finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _figures(turns: pa.Table, part: Part) -> PartFigures:
    return PartFigures(part, summarize_turns(part.of(turns)))


def _four(gained: Gain | None, by_part: Sequence[PartFigures], steps: pa.Table, seconds: float) -> list[dict[str, str]]:
    shown = _shown_part(gained, by_part)
    if shown is None:
        return [_figure("Training steps", f"{steps.num_rows:,}", duration(seconds))]
    label = shown.part.label
    solved = shown.solved_by_turn
    later = _points(solved[-1] - solved[0]) if len(solved) > 1 else "-"
    speedup, compiled = shown.summary.speedup_mean, shown.summary.by_turn[:1]
    first = f"{compiled[0].compiled_rate:.1%} compile at turn 1" if compiled else "no valid turn"
    timed = f"mean of solved, {label}" if speedup is not None else "nothing was timed"
    return [
        _figure("Solved", "-" if shown.solved is None else f"{shown.solved:.1%}", f"{label}; {first}"),
        _figure("Added by turns 2+", f"{later} points" if solved else "-", f"of solved, {label}"),
        _figure("Speedup", "-" if speedup is None else f"{speedup:.2f}x", timed),
        _figure("Training steps", f"{steps.num_rows:,}", duration(seconds)),
    ]


def _shown_part(gained: Gain | None, by_part: Sequence[PartFigures]) -> PartFigures | None:
    """The last evaluation; without one, training; without that, any part."""
    wanted = gained.last if gained is not None else Part(TRAIN)
    return next((figures for figures in by_part if figures.part == wanted), by_part[-1] if by_part else None)


def _figure(label: str, value: str, note: str) -> dict[str, str]:
    return {"label": label, "value": value, "note": note}


def _without_evaluations(turns: pa.Table) -> str:
    training = turns.filter((pc.field("role") == TRAIN) & pc.field("valid"))
    if not training.num_rows:
        return "No held-out evaluation before and after training is recorded, and no training turns."
    share = pc.mean(pc.cast(training.column("correct"), pa.float64())).as_py()
    return (
        "No held-out evaluation before and after training is recorded, so nothing is said about its effect. "
        f"{share:.1%} of training turns are correct."
    )


def _points(share: float) -> str:
    return f"{100 * share + 0.0:+.1f}"


def _spoken(value: Any) -> str:
    return "-" if value is None else str(value)
