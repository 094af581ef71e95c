"""How a run's figures change during training: curves over steps, from turns, credits and steps."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from warpsmith.records.parts import TRAIN, Part
from warpsmith.records.report.held_out import solved_shares
from warpsmith.records.report.intervals import interval

_QUANTILES: Final = {"largest": 1.0, "upper tenth": 0.9, "median": 0.5, "lower tenth": 0.1, "smallest": 0.0}
_PHASES: Final = {"collect": "collect_s", "train": "train_s", "sync": "sync_s"}
_CURVE_RESAMPLES: Final = 1000
_USE: Final = re.compile(r"gpu_\d+/utilization|evaluator/(busy|lease_held)_share|machine/cpu_utilization")


@dataclass(frozen=True)
class Curve:
    """One curve over steps; `low` and `high`, if not empty, bound each point."""

    name: str
    x: list[int]
    y: list[float | None]
    low: list[float | None]
    high: list[float | None]


@dataclass(frozen=True)
class Trend:
    """Curves over one axis; `rate` says that the values are shares in [0, 1]."""

    title: str
    rate: bool
    curves: list[Curve]

    def to_dict(self) -> dict[str, Any]:
        """Return the trend as plain values."""
        return asdict(self)


def trends(turns: pa.Table, credits: pa.Table, steps: pa.Table, parts: Sequence[Part]) -> list[Trend]:
    """Return the curves of a run's course; those without values are left out.

    Args:
        turns: columns as `Follower.turns` has them.
        credits, steps: tables of the schema.
        parts: parts of the run; those with `after_step` are the points of the held-out curves.
    """
    found = [*_evaluations(turns, parts), *_training(turns), _advantages(credits), _phases(steps), *_use(steps)]
    return [trend for trend in found if any(y is not None for curve in trend.curves for y in curve.y)]


def _evaluations(turns: pa.Table, parts: Sequence[Part]) -> list[Trend]:
    """Solved share with its interval, for roles that were evaluated at two points or more."""
    found = []
    for role in dict.fromkeys(part.role for part in parts):
        moments = [part for part in parts if part.role == role and part.after_step is not None]
        shares = {part.after_step: list(solved_shares(part.of(turns)).values()) for part in moments}
        known = {
            step: interval(values, resamples=_CURVE_RESAMPLES)
            for step, values in shares.items()
            if step is not None and values
        }
        if len(known) > 1:
            curve = Curve(
                "solved",
                list(known),
                [point.mean for point in known.values()],
                [point.low for point in known.values()],
                [point.high for point in known.values()],
            )
            found.append(Trend(f"{role}: solved, with 95 % interval", True, [curve]))
    return found


def _training(turns: pa.Table) -> list[Trend]:
    """Score, compiled and correct of training turns by step: one curve per turn, and one per agent if there are any."""
    valid = turns.filter((pc.field("role") == TRAIN) & pc.field("valid") & pc.field("rollout_step").is_valid())
    for name in ("compiled", "correct"):
        valid = valid.append_column(f"{name}_share", pc.cast(valid.column(name), pa.float64()))
    measured = {"correct_share": "correct", "compiled_share": "compiled", "reward": "mean reward"}
    found = _by(valid, "turn", measured)
    with_agent = valid.filter(pc.field("agent").is_valid())
    return found + _by(with_agent, "agent", measured | {"speedup_over_start": "mean speedup over the start"})


def _by(valid: pa.Table, column: str, measured: Mapping[str, str]) -> list[Trend]:
    means = valid.group_by([column, "rollout_step"]).aggregate([(name, "mean") for name in measured])
    rows = means.sort_by([(column, "ascending"), ("rollout_step", "ascending")]).to_pylist()
    return [
        Trend(f"training: {title} by {column}", name.endswith("_share"), _curves(rows, column, f"{name}_mean"))
        for name, title in measured.items()
    ]


def _curves(rows: Sequence[Mapping[str, Any]], column: str, name: str) -> list[Curve]:
    points: dict[int | str, list[tuple[int, float | None]]] = {}
    for row in rows:
        points.setdefault(row[column], []).append((row["rollout_step"], row[name]))
    return [
        Curve(f"turn {of + 1}" if isinstance(of, int) else of, [x for x, _ in at], [y for _, y in at], [], [])
        for of, at in points.items()
        if any(y is not None for _, y in at)
    ]


def _advantages(credits: pa.Table) -> Trend:
    """The spread of each step's advantages: how much signal there was."""
    # Sorted once and sliced: a filter for each step would take minutes for a run of thousands of steps.
    ordered = credits.select(["step", "advantage"]).sort_by("step")
    at, spreads, begin = [], [], 0
    for found in pc.value_counts(ordered.column("step")).to_pylist():
        values = ordered.column("advantage").slice(begin, found["counts"])
        begin += found["counts"]
        at.append(found["values"])
        spreads.append(pc.quantile(values, q=list(_QUANTILES.values())).to_pylist())
    curves = [Curve(name, at, [spread[place] for spread in spreads], [], []) for place, name in enumerate(_QUANTILES)]
    return Trend("advantages: spread", False, curves)


def _use(steps: pa.Table) -> list[Trend]:
    """How busy GPUs, evaluator and processors were; none in a run that did not record it."""
    points: dict[str, dict[int, float]] = {}
    for step, metrics in zip(steps.column("step").to_pylist(), steps.column("metrics").to_pylist(), strict=True):
        for name, value in metrics:
            if _USE.fullmatch(name):
                points.setdefault(_spoken(name), {})[step] = value
    curves = [Curve(name, list(points[name]), list(points[name].values()), [], []) for name in sorted(points)]
    return [Trend("in use: GPUs, evaluator, processors", True, curves)] if curves else []


def _spoken(name: str) -> str:
    """Return a metric's name in words: `evaluator busy`, `evaluator lease held`, `gpu 0`, `machine cpu`."""
    return re.sub(r"[/_]", " ", re.sub(r"[/_](share|utilization)$", "", name))


def _phases(steps: pa.Table) -> Trend:
    at = steps.column("step").to_pylist()
    curves = [Curve(name, at, steps.column(column).to_pylist(), [], []) for name, column in _PHASES.items()]
    return Trend("seconds of a step by phase", False, curves)
