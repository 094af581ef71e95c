"""When a run started, generated, evaluated, trained and synced, from its records, and how much of that overlapped.

Turns and steps have start times by rank 0's clock and durations, so every recorded run has a timeline. The phases of a
start, and the windows in which candidates were timed while sampling stood still, are in a file next to the records.
"""

import datetime as dt
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from warpsmith.records.errors import UsageError
from warpsmith.records.reader import RunReader

StartPhase = Literal["start", "time"]
Phase = StartPhase | Literal["generate", "evaluate", "wait", "train", "sync"]
PHASES: Final[tuple[Phase, ...]] = ("start", "generate", "evaluate", "time", "wait", "train", "sync")
PHASES_FILE: Final = "phases.jsonl"
"""File of a run with the spans of `StartPhase`, a JSON object a line; `began` and `ended` are in seconds since 1970."""

_TURN_COLUMNS = (
    "trajectory", "turn", "rollout_step", "started_at", "generate_s", "wait_s", "evaluate_s",
)  # fmt: skip
_STEP_COLUMNS = ("step", "started_at", "collect_s", "train_s", "sync_s")

_SHOWN = 20

Interval = tuple[float, float]


class NoTimelineError(UsageError):
    """The run, or the selected steps, contain nothing that took time."""


@dataclass(frozen=True)
class Span:
    """An activity with a duration.

    Attributes:
        phase: the activity. `wait` is the trainer waiting for its batch; `evaluate` includes queueing; `start` is a
            part of the run's start; `time` is a window in which candidates were timed while sampling stood still.
        step: the training step it was for; None for an evaluation of the policy and for the start.
        begin, end: seconds since the run's first span.
        name: the turn or the step.
    """

    phase: Phase
    step: int | None
    begin: float
    end: float
    name: str


@dataclass(frozen=True)
class Overlap:
    """How much overlapped, in seconds of wall time.

    Attributes:
        wall_s: from the first begin to the last end.
        rollout_s: while a turn was generated or evaluated.
        training_s: while the trainer trained or synced.
        both_s: both at once.
        waited_s: while the trainer waited for its batch.
        share: `both_s` as a share of `training_s`; 0 in a synchronous run.
    """

    wall_s: float
    rollout_s: float
    training_s: float
    both_s: float
    waited_s: float
    share: float

    def to_dict(self) -> dict[str, float]:
        """Return the figures by name."""
        return asdict(self)


def spans(reader: RunReader, steps: range | None = None) -> list[Span]:
    """Return the spans of a run, ordered by begin.

    Args:
        reader: reader of the run.
        steps: only spans for these steps; by default all, including evaluations of the policy.

    Raises:
        NoTimelineError: there are none.
    """
    found = [*_of_turns(reader), *_of_steps(reader), *_of_phases(reader.run_dir / PHASES_FILE)]
    kept = [span for span in found if steps is None or span[1] in steps]
    if not kept:
        raise NoTimelineError(
            f"{reader.run_dir} has no turn and no step" + (f" of {named(steps)}." if steps else "."),
            "Choose a run that has recorded some, or other steps.",
        )
    origin = min(begin for _, _, begin, _, _ in kept)
    return sorted(
        (
            Span(phase, step, (begin - origin).total_seconds(), (begin - origin).total_seconds() + seconds, name)
            for phase, step, begin, seconds, name in kept
        ),
        key=lambda span: (span.begin, span.end),
    )


def chosen_steps(reader: RunReader, text: str | None) -> range | None:
    """Return the steps that `FIRST-LAST` or a single number selects; None for `all`; the last 20 by default.

    Raises:
        UsageError: the text is not a range.
    """
    if text is None:
        steps = reader.table("steps", columns=["step"]).column("step").to_pylist()
        return range(max(min(steps), max(steps) - _SHOWN + 1), max(steps) + 1) if steps else None
    if text.strip() == "all":
        return None
    named_steps = re.fullmatch(r"(\d+)(?:-(\d+))?", text.strip())
    if named_steps is None or int(named_steps[2] or named_steps[1]) < int(named_steps[1]):
        raise UsageError(f"{text!r} is not a range of steps.", "Use 3-6, 3 for one step, or all.")
    return range(int(named_steps[1]), int(named_steps[2] or named_steps[1]) + 1)


def named(steps: range | None) -> str:
    """Return steps in words."""
    return "the whole run" if steps is None else f"steps {steps[0]} to {steps[-1]}"


def overlap(found: Sequence[Span]) -> Overlap:
    """Return how much rollouts and training overlapped."""
    rollout = merged((span.begin, span.end) for span in found if span.phase in ("generate", "evaluate"))
    training = merged((span.begin, span.end) for span in found if span.phase in ("train", "sync"))
    waited = merged((span.begin, span.end) for span in found if span.phase == "wait")
    both, whole = _length(common(rollout, training)), _length(training)
    wall = max(span.end for span in found) - min(span.begin for span in found)
    return Overlap(wall, _length(rollout), whole, both, _length(waited), both / whole if whole else 0.0)


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the union of intervals: disjoint and ordered."""
    found: list[Interval] = []
    for begin, end in sorted(intervals):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def common(one: Sequence[Interval], other: Sequence[Interval]) -> list[Interval]:
    """Return the intersection of two unions as returned by `merged`."""
    found, first, second = [], 0, 0
    while first < len(one) and second < len(other):
        begin = max(one[first][0], other[second][0])
        end = min(one[first][1], other[second][1])
        if begin < end:
            found.append((begin, end))
        if one[first][1] <= other[second][1]:
            first += 1
        else:
            second += 1
    return found


def _length(intervals: Iterable[Interval]) -> float:
    return float(sum(end - begin for begin, end in intervals))


_Found = tuple[Phase, int | None, dt.datetime, float, str]


def _of_turns(reader: RunReader) -> Iterable[_Found]:
    table = reader.table("turns", columns=["run", *_TURN_COLUMNS], latest=True)
    for row in table.to_pylist():
        step = row["rollout_step"]
        name, generated = f"{row['trajectory']}, turn {row['turn'] + 1}", row["generate_s"] or 0.0
        judged = sum(row[column] or 0.0 for column in ("wait_s", "evaluate_s"))
        if generated:
            yield "generate", step, row["started_at"], generated, name
        if judged:
            yield "evaluate", step, row["started_at"] + dt.timedelta(seconds=generated), judged, name


def _of_steps(reader: RunReader) -> Iterable[_Found]:
    phases: tuple[tuple[Phase, str], ...] = (("wait", "collect_s"), ("train", "train_s"), ("sync", "sync_s"))
    for row in reader.table("steps", columns=["run", *_STEP_COLUMNS], latest=True).to_pylist():
        begin: Any = row["started_at"]
        for phase, column in phases:
            seconds = row[column] or 0.0
            if seconds:
                yield phase, row["step"], begin, seconds, f"step {row['step']}"
            begin += dt.timedelta(seconds=seconds)


def _of_phases(file: Path) -> Iterable[_Found]:
    if not file.is_file():
        return
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
            began = dt.datetime.fromtimestamp(row["began"], dt.UTC)
            found = row["phase"], row["step"], began, row["ended"] - row["began"], row["name"]
        except (ValueError, KeyError, TypeError, OverflowError):
            # A line that a kill cut off.
            continue
        yield found
