"""How a run's figures change during training: curves over steps, from turns, credits and steps."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from warpsmith.records import charts
from warpsmith.records.charts import SeriesChart
from warpsmith.records.reader import RunReader
from warpsmith.records.summary import TRAIN, Part, RunSummary

Points = list[tuple[float, float | None]]

_QUANTILES: Final = {"largest": 1.0, "upper tenth": 0.9, "median": 0.5, "lower tenth": 0.1, "smallest": 0.0}
_PHASES: Final = {"collect": "collect_s", "train": "train_s", "sync": "sync_s"}


def trends(reader: RunReader, steps: pa.Table, summaries: Mapping[Part, RunSummary]) -> list[SeriesChart]:
    """Charts of a run's course; charts without values are left out.

    Args:
        steps: the run's `steps`, sorted by step.
        summaries: of each part; evaluations (parts with `after_step`) become the held-out curves.
    """
    drawn = [
        *_evaluations(summaries),
        *_by_turn(reader),
        _advantages(reader),
        _phases(steps),
    ]
    return [chart for chart in drawn if chart is not None]


def _evaluations(summaries: Mapping[Part, RunSummary]) -> list[SeriesChart | None]:
    """Score and correctness of the evaluations, for roles that were evaluated at two points or more."""
    found = []
    for role in dict.fromkeys(part.role for part in summaries):
        moments = {part.after_step: figures for part, figures in summaries.items() if part.role == role}
        at = [step for step in moments if step is not None]
        if len(at) > 1:
            rates = {
                "correct at the end": [(step, moments[step].final_correct_rate) for step in at],
                "compiled, first turn": [(step, _first_turn_compiled(moments[step])) for step in at],
            }
            scores = {"mean return": [(step, moments[step].return_mean) for step in at]}
            found += [
                charts.series_chart(f"{role}: rates", rates),
                charts.series_chart(f"{role}: mean return", scores),
            ]
    return found


def _first_turn_compiled(figures: RunSummary) -> float | None:
    return figures.by_turn[0].compiled_rate if figures.by_turn else None


def _by_turn(reader: RunReader) -> list[SeriesChart | None]:
    """Score, compiled and correct of training turns by step, one curve per turn index."""
    turns = reader.table("turns", columns=["role", "turn", "after_step", "reward", "valid", "verdict"], latest=True)
    turns = turns.filter((pc.field("role") == TRAIN) & pc.field("valid") & pc.field("after_step").is_valid())
    for name in ("compiled", "correct"):
        values = pc.fill_null(pc.struct_field(turns.column("verdict"), name), False)
        turns = turns.append_column(name, pc.cast(values, pa.float64()))
    measured = ("reward", "compiled", "correct")
    means = turns.group_by(["turn", "after_step"]).aggregate([(name, "mean") for name in measured])
    rows = means.sort_by([("turn", "ascending"), ("after_step", "ascending")]).to_pylist()
    titles = {
        "reward": "training: mean reward by turn",
        "compiled": "training: compiled",
        "correct": "training: correct",
    }
    return [charts.series_chart(titles[name], _turn_curves(rows, name)) for name in measured]


def _turn_curves(rows: Sequence[Mapping[str, Any]], name: str) -> dict[str, Points]:
    curves: dict[str, Points] = {}
    for row in rows:
        curves.setdefault(f"turn {row['turn'] + 1}", []).append((row["after_step"] + 1, row[f"{name}_mean"]))
    return curves


def _advantages(reader: RunReader) -> SeriesChart | None:
    """The spread of each step's advantages: how much signal there was."""
    table = reader.table("credits", columns=["step", "advantage"], latest=True)
    at = sorted(pc.unique(table.column("step")).to_pylist())
    spreads = []
    for step in at:
        values = table.filter(pc.field("step") == step).column("advantage")
        spreads.append(pc.quantile(values, q=list(_QUANTILES.values())).to_pylist())
    curves: dict[str, Points] = {
        name: [(step, spread[place]) for step, spread in zip(at, spreads, strict=True)]
        for place, name in enumerate(_QUANTILES)
    }
    return charts.series_chart("advantages: spread", curves)


def _phases(steps: pa.Table) -> SeriesChart | None:
    at = steps.column("step").to_pylist()
    curves: dict[str, Points] = {
        name: list(zip(at, steps.column(column).to_pylist(), strict=True)) for name, column in _PHASES.items()
    }
    return charts.series_chart("seconds of a step by phase", curves)
