"""Held-out figures before and after training: as RUN/summary.json has them, and from the turns themselves."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from warpsmith.records.parts import TRAIN, Part
from warpsmith.records.report.errors import ReportError
from warpsmith.records.report.intervals import Interval, difference
from warpsmith.records.text import read_json

SUMMARY_FILE: Final = "summary.json"


@dataclass(frozen=True)
class HeldOut:
    """One held-out figure before and after training; `interval`, if given, bounds the difference."""

    metric: str
    before: float | None
    after: float | None
    interval: tuple[float, float] | None

    def to_dict(self) -> dict[str, Any]:
        """Return the figure, with the difference, for the page."""
        known = self.before is not None and self.after is not None
        return {
            "metric": self.metric,
            "before": self.before,
            "after": self.after,
            "difference": self.after - self.before if known else None,  # type: ignore[operator]
            "interval": self.interval,
        }


@dataclass(frozen=True)
class Gain:
    """Share of solved trajectories, first and last evaluation of one role.

    Attributes:
        first, last: the evaluations.
        before, after: shares over the problems of each.
        change: interval of the difference, paired by problem; None if they share no problem.
    """

    first: Part
    last: Part
    before: float
    after: float
    change: Interval | None


def solved_shares(turns: pa.Table) -> dict[str, float]:
    """Return the share of trajectories with a correct turn, by problem; only valid turns count."""
    valid = turns.filter(pc.field("valid"))
    solved = pc.cast(valid.column("correct"), pa.int32())
    best = valid.append_column("solved", solved).group_by(["key", "problem"]).aggregate([("solved", "max")])
    shares = best.group_by("problem").aggregate([("solved_max", "mean")]).to_pylist()
    return {row["problem"]: row["solved_max_mean"] for row in shares}


def gain(turns: pa.Table, parts: list[Part]) -> Gain | None:
    """Return what training changed on held-out problems; None without two evaluations of one role."""
    for role in dict.fromkeys(part.role for part in parts if part.role != TRAIN):
        moments = [part for part in parts if part.role == role and part.after_step is not None]
        shares = {part: solved_shares(part.of(turns)) for part in moments}
        known = [part for part in moments if shares[part]]
        if len(known) > 1:
            first, last = known[0], known[-1]
            before, after = (sum(s.values()) / len(s) for s in (shares[first], shares[last]))
            return Gain(first, last, before, after, difference(shares[first], shares[last]))
    return None


def recorded_figures(run_dir: Path) -> list[HeldOut]:
    """Read {"held_out": {"before": {metric: number}, "after": {...}, "interval": {metric: [low, high]}}}.

    Raises:
        ReportError: the file does not have that form.
    """
    path = run_dir / SUMMARY_FILE
    found = read_json(path, ReportError, remedy="Fix it or move it away.") if path.exists() else None
    held_out = found.get("held_out") if isinstance(found, dict) else None
    if held_out is None:
        return []
    try:
        return _figures(held_out)
    except (AttributeError, TypeError, ValueError, IndexError) as error:
        raise ReportError(
            f"{path}: `held_out` does not have the expected form.",
            "It is {before: {metric: number}, after: {metric: number}, interval: {metric: [low, high]}}; "
            "each of the three is optional.",
        ) from error


def _figures(held_out: dict[str, Any]) -> list[HeldOut]:
    # A run that is still training has only evaluated before.
    before, after, interval = (held_out.get(name, {}) for name in ("before", "after", "interval"))
    names = [name for name in {**before, **after} if _is_number(before.get(name)) or _is_number(after.get(name))]
    figures = []
    for name in names:
        bounds = interval.get(name)
        both = None if bounds is None else (float(bounds[0]), float(bounds[1]))
        figures.append(HeldOut(name, _number(before.get(name)), _number(after.get(name)), both))
    return figures


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Any) -> float | None:
    return float(value) if _is_number(value) else None
