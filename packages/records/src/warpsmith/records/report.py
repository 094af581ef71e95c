"""write_report: one self-contained HTML page about a run, to read in a browser or send to others.

Text that a model wrote is shown as text: the template escapes it, and the page's content policy allows no script.
"""

import importlib
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from warpsmith.records import charts, printing
from warpsmith.records._version import __version__
from warpsmith.records.errors import WarpsmithError
from warpsmith.records.export import Row, trajectories_of
from warpsmith.records.folders import write_file
from warpsmith.records.reader import RunReader
from warpsmith.records.summary import Part, parts, summarize
from warpsmith.records.text import read_json
from warpsmith.records.trends import trends

SUMMARY_FILE: Final = "summary.json"
TEMPLATE: Final = "report.html.jinja"
OUTCOMES: Final = {
    "correct": "correct",
    "compiled": "compiled, not correct",
    "failed": "not compiled",
    "invalid": "invalid",
}
"""Descriptions of how trajectories end, by the class name used in the page."""

_NOT_FIGURES: Final = ("run", "step", "weight_version", "started_at", "metrics")
_READ_COLUMNS: Final = (
    *(
        "run",
        "role",
        "after_step",
        "problem",
        "trajectory",
        "sample",
        "turn",
        "num_turns",
        "messages",
        "completion",
        "kernel",
    ),
    *("finish_reason", "verdict", "reward", "return", "valid", "invalid_reason", "started_at"),
)


class ReportError(WarpsmithError):
    """The report cannot be made."""


@dataclass(frozen=True)
class HeldOut:
    """One held-out figure before and after training; `interval`, if given, bounds the difference."""

    metric: str
    before: float | None
    after: float | None
    interval: tuple[float, float] | None

    @property
    def difference(self) -> float | None:
        return None if self.before is None or self.after is None else self.after - self.before


@dataclass(frozen=True)
class StatusCount:
    """How often the turns of one part got a status and an error category (or none)."""

    part: Part
    status: str
    category: str
    turns: int
    share: float


@dataclass(frozen=True)
class Reading:
    """Trajectories of one part to read, and why they were chosen; each is a list of turn rows in order."""

    part: Part
    heading: str
    trajectories: tuple[list[Row], ...]


def write_report(reader: RunReader, out: Path, *, trajectories: int = 5) -> None:
    """Write the run's report to `out`.

    Args:
        trajectories: how many to show per part and kind (best, most improved, latest failed, random).

    Raises:
        ReportError: jinja2 is not installed, or RUN/summary.json does not have the form in docs/records.md.
        SegmentError: damaged records, if the reader raises.
        OutputError: `out` cannot be written.
    """
    write_file(out, _template().render(**_contents(reader, trajectories)))


def _template() -> Any:
    try:
        jinja2 = importlib.import_module("jinja2")
    except ImportError as error:
        raise ReportError(
            "The report needs jinja2, which is not installed.", "pip install 'warpsmith-records[analysis]'"
        ) from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("warpsmith.records", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": printing.number, "percent": printing.percent, "outcome": outcome}
    return environment.get_template(TEMPLATE)


def _contents(reader: RunReader, count: int) -> dict[str, Any]:
    found = parts(reader)
    summaries = {part: summarize(reader, role=part.role, after_step=part.after_step, top=0) for part in found}
    steps = reader.table("steps", latest=True).sort_by("step")
    main_curves, more_curves = _curves(steps)
    return {
        "run": reader.run_dir.resolve().name,
        "made_at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "version": __version__,
        "chart": charts,
        "outcomes": OUTCOMES,
        "summaries": summaries,
        "main_curves": main_curves,
        "more_curves": more_curves,
        "held_out": _held_out(reader.run_dir / SUMMARY_FILE),
        "trends": trends(reader, steps, summaries),
        "statuses": _statuses(reader, found),
        "readings": _readings(reader, found, count),
        "torn": [str(torn) for torn in reader.torn],
        "damage": [str(error) for error in reader.damage],
    }


def _curves(steps: pa.Table) -> tuple[list[charts.LineChart], list[charts.LineChart]]:
    """Charts of the columns, and of the metrics that are not columns."""
    at = steps.column("step").to_pylist()
    columns = {name: steps.column(name).to_pylist() for name in steps.column_names if name not in _NOT_FIGURES}
    metrics = [dict(pairs) for pairs in steps.column("metrics").to_pylist()]
    names = sorted({name for row in metrics for name in row} - columns.keys())
    more = {name: [row.get(name) for row in metrics] for name in names}
    return _charts(at, columns), _charts(at, more)


def _charts(at: list[int], curves: dict[str, list[float | None]]) -> list[charts.LineChart]:
    drawn = (charts.line_chart(name, list(zip(at, values, strict=True))) for name, values in curves.items())
    return [chart for chart in drawn if chart is not None]


def _statuses(reader: RunReader, found: Sequence[Part]) -> list[StatusCount]:
    """Status and error category of each part's turns, the most frequent first."""
    turns = reader.table("turns", columns=["role", "after_step", "verdict"], latest=True)
    statuses = []
    for part in found:
        verdict = _of(part, turns).column("verdict")
        columns = [
            pc.fill_null(pc.struct_field(verdict, name), without).to_pylist()
            for name, without in (("status", "no verdict"), ("error_category", ""))
        ]
        counts = Counter(zip(*columns, strict=True)).most_common()
        statuses += [
            StatusCount(part, status, category, turns, turns / len(verdict)) for (status, category), turns in counts
        ]
    return statuses


def _of(part: Part, turns: pa.Table) -> pa.Table:
    mine = turns.filter(pc.field("role") == part.role)
    return mine if part.after_step is None else mine.filter(pc.field("after_step") == part.after_step)


def _readings(reader: RunReader, found: Sequence[Part], count: int) -> list[Reading]:
    turns = reader.table("turns", columns=_READ_COLUMNS, latest=True)
    return [reading for part in found for reading in _readings_of(part, _of(part, turns), count)]


def _readings_of(part: Part, turns: pa.Table, count: int) -> list[Reading]:
    """The best, the most improved, the latest failed and random trajectories of a part, without duplicates."""
    everyone = [rows for rows in trajectories_of(turns) if any(row["valid"] for row in rows)]
    shown: set[tuple[str, str]] = set()
    best = sorted(everyone, key=_return_of, reverse=True)
    improved = sorted((rows for rows in everyone if _improvement(rows) > 0), key=_improvement, reverse=True)
    failed = [rows for rows in reversed(everyone) if outcome(rows) != "correct"]
    # The same ones each time the report is made.
    drawn = random.Random(0).sample(everyone, len(everyone))
    kinds = {"Highest return": best, "Most improved": improved, "Latest not correct": failed, "Drawn at random": drawn}
    readings = []
    for heading, chosen in kinds.items():
        fresh = [rows for rows in chosen if (rows[0]["run"], rows[0]["trajectory"]) not in shown][:count]
        shown |= {(rows[0]["run"], rows[0]["trajectory"]) for rows in fresh}
        if fresh:
            readings.append(Reading(part, heading, tuple(fresh)))
    return readings


def outcome(rows: Sequence[Row]) -> str:
    """How a trajectory ended: `correct`, `compiled` (and not correct), `failed` to compile, or `invalid`."""
    last = rows[-1]
    if not last["valid"]:
        return "invalid"
    verdict = last["verdict"] or {}
    if verdict.get("correct"):
        return "correct"
    return "compiled" if verdict.get("compiled") else "failed"


def _return_of(rows: list[Row]) -> float:
    aggregated = rows[0]["return"]
    return float("-inf") if aggregated is None else float(aggregated)


def _improvement(rows: list[Row]) -> float:
    rewards = [row["reward"] for row in rows if row["valid"]]
    return float(rewards[-1] - rewards[0])


def _held_out(path: Path) -> list[HeldOut]:
    """Read {"held_out": {"before": {metric: number}, "after": {...}, "interval": {metric: [low, high]}}}."""
    if not path.exists():
        return []
    found = read_json(path, ReportError, remedy="Fix it or move it away.")
    held_out = found.get("held_out") if isinstance(found, dict) else None
    if held_out is None:
        return []
    try:
        return _held_out_figures(held_out)
    except (AttributeError, TypeError, ValueError, IndexError) as error:
        raise ReportError(
            f"{path}: `held_out` does not have the expected form.",
            "It is {before: {metric: number}, after: {metric: number}, interval: {metric: [low, high]}}; "
            "each of the three is optional.",
        ) from error


def _held_out_figures(held_out: dict[str, Any]) -> list[HeldOut]:
    # A run that is still training has only evaluated before.
    before, after, interval = (held_out.get(name, {}) for name in ("before", "after", "interval"))
    names = [name for name in {**before, **after} if _is_number(before.get(name)) or _is_number(after.get(name))]
    figures = []
    for name in names:
        bounds = interval.get(name)
        low, high = (None, None) if bounds is None else (float(bounds[0]), float(bounds[1]))
        both = None if low is None or high is None else (low, high)
        figures.append(HeldOut(name, _number(before.get(name)), _number(after.get(name)), both))
    return figures


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Any) -> float | None:
    return float(value) if _is_number(value) else None
