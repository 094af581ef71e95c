"""A timeline as a picture (SVG), and as a trace that Perfetto and chrome://tracing open (JSON)."""

import json
import math
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from warpsmith.records.errors import UsageError
from warpsmith.records.timeline import PHASES, Overlap, Phase, Span, overlap

WIDTH: Final = 1100
LEFT: Final = 90
RIGHT: Final = 20
TOP: Final = 56
LANES: Final[dict[Phase, int]] = {
    "start": 26, "generate": 90, "evaluate": 90, "time": 26, "wait": 26, "train": 26, "sync": 26,
}  # fmt: skip
ONLY_IF_ANY: Final = ("start", "time")
"""Phases without a lane in a picture of a run, or of steps, that has none."""
GAP: Final = 12

COLOURS: Final = ("#2563a8", "#e08a1e", "#3f8f4f", "#a33b3b", "#7b55a3", "#2a9d9d")
"""Colours of steps, in turn."""
OTHER: Final = "#8c8c8c"
"""Colour of evaluations of the policy."""

_TRAINER, _ROLLOUTS, _START, _WINDOWS = 1, 2, 3, 4


def write_timeline(found: Sequence[Span], out: Path, title: str) -> None:
    """Write spans to `out`: a picture if its name ends in .svg, a trace if it ends in .json.

    Raises:
        UsageError: it ends in anything else.
    """
    if out.suffix not in (".svg", ".json"):
        raise UsageError(f"{out} is neither an image nor a trace.", "Choose a file name that ends in .svg or .json.")
    text = picture(found, title) if out.suffix == ".svg" else json.dumps(trace(found)) + "\n"
    partial = out.with_name(f"{out.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(out)


# The picture ---------------------------------------------------------------------------------------------------------


def picture(found: Sequence[Span], title: str) -> str:
    """Return an SVG: a lane per phase, time to the right, a colour per step; height is the number of turns at once."""
    seconds = max(span.end for span in found)
    lanes = [phase for phase in PHASES if phase not in ONLY_IF_ANY or any(span.phase == phase for span in found)]
    height = TOP + sum(LANES[phase] + GAP for phase in lanes) + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="15">{escape(title)}</text>',
        f'<text x="{LEFT}" y="42" fill="#555">{escape(sentence(overlap(found)))}</text>',
        *_axis(seconds, height - 26),
    ]
    top = TOP
    for phase in lanes:
        parts += _lane(phase, [span for span in found if span.phase == phase], top, seconds)
        top += LANES[phase] + GAP
    return "\n".join([*parts, "</svg>", ""])


def sentence(figures: Overlap) -> str:
    """Return the figures of an overlap as a sentence."""
    return (
        f"{figures.wall_s:.1f} s: rollouts {figures.rollout_s:.1f} s, training and sync {figures.training_s:.1f} s, "
        f"both at once {figures.both_s:.1f} s ({figures.share:.0%} of training); the trainer waited "
        f"{figures.waited_s:.1f} s"
    )


def _across(moment: float, seconds: float) -> float:
    return LEFT + moment / max(seconds, 1e-9) * (WIDTH - LEFT - RIGHT)


def _axis(seconds: float, bottom: float) -> Iterator[str]:
    stride = _stride(seconds)
    for number in range(math.floor(seconds / stride) + 1):
        x = _across(number * stride, seconds)
        yield f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{bottom}" stroke="#e4e4e4"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{number * stride:g} s</text>'


def _stride(seconds: float) -> float:
    """Return the smallest of 1, 2 or 5 times a power of ten that gives at most ten ticks."""
    power = 10.0 ** math.floor(math.log10(max(seconds, 1e-6) / 10))
    return next(power * factor for factor in (1, 2, 5, 10, 20) if seconds / (power * factor) <= 10)


def _lane(phase: Phase, found: Sequence[Span], top: int, seconds: float) -> Iterator[str]:
    bottom = top + LANES[phase]
    yield f'<text x="{LEFT - 8}" y="{(top + bottom) / 2 + 4}" text-anchor="end">{phase}</text>'
    yield f'<line x1="{LEFT}" y1="{bottom}" x2="{WIDTH - RIGHT}" y2="{bottom}" stroke="#999"/>'
    counts = {step: _counts([span for span in found if span.step == step]) for step in _steps(found)}
    most = max((count for points in counts.values() for _, count in points), default=1)
    for step, points in counts.items():
        corners = " ".join(
            f"{_across(moment, seconds):.1f},{bottom - count / most * LANES[phase]:.1f}" for moment, count in points
        )
        name = f"step {step}" if step is not None else "" if phase == "start" else "evaluation of the policy"
        yield (
            f'<polygon points="{corners}" fill="{_colour(step)}" fill-opacity="0.75">'
            f"<title>{phase}{name and ', '}{name}</title></polygon>"
        )
    if most > 1:
        yield f'<text x="{LEFT - 8}" y="{top + 12}" text-anchor="end" fill="#777" font-size="10">{most}</text>'


def _steps(found: Sequence[Span]) -> list[int | None]:
    return sorted({span.step for span in found}, key=lambda step: -1 if step is None else step)


def _colour(step: int | None) -> str:
    return OTHER if step is None else COLOURS[step % len(COLOURS)]


def _counts(found: Sequence[Span]) -> list[tuple[float, int]]:
    """Return the corners of the curve of how many spans run at each moment; it starts and ends at 0."""
    changes = sorted([(span.begin, 1) for span in found] + [(span.end, -1) for span in found])
    corners, count = [], 0
    for moment, change in changes:
        corners.append((moment, count))
        count += change
        corners.append((moment, count))
    return corners


# The trace -----------------------------------------------------------------------------------------------------------


def trace(found: Sequence[Span]) -> dict[str, Any]:
    """Return Chrome trace events: the trainer as one process, rollouts as another with one row per concurrent turn.

    The start, and windows in which candidates were timed, are processes of their own.
    """
    events = []
    for process, name, phases in (
        (_TRAINER, "trainer", ("wait", "train", "sync")),
        (_ROLLOUTS, "rollouts", ("generate", "evaluate")),
        (_START, "start", ("start",)),
        (_WINDOWS, "timing windows", ("time",)),
    ):
        own = [span for span in found if span.phase in phases]
        rows = ((span, 0) for span in own) if process == _TRAINER else _rows(own)
        if own or process in (_TRAINER, _ROLLOUTS):
            events += [_named(process, name), *(_event(span, process, row) for span, row in rows)]
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _named(process: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": name}}


def _event(span: Span, process: int, row: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": span.name
        if span.phase == "start"
        else span.phase
        if span.step is None
        else f"{span.phase} {span.step}",
        "cat": span.phase,
        "ts": round(span.begin * 1e6),
        "dur": round((span.end - span.begin) * 1e6),
        "pid": process,
        "tid": row,
        "args": {"of": span.name, "step": span.step},
    }


def _rows(found: Sequence[Span]) -> Iterator[tuple[Span, int]]:
    """Yield each span with the first row that is free when it begins; spans are ordered by begin."""
    free_at: list[float] = []
    for span in found:
        row = next((number for number, moment in enumerate(free_at) if moment <= span.begin), len(free_at))
        if row == len(free_at):
            free_at.append(span.end)
        free_at[row] = span.end
        yield span, row
