"""Runs side by side: solved shares with intervals, and differences paired by problem."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from warpsmith.records.parts import TRAIN, Part, parts_of
from warpsmith.records.report.held_out import solved_shares
from warpsmith.records.report.intervals import difference, interval
from warpsmith.records.report.overview import finite


def comparison(turns: Sequence[pa.Table]) -> dict[str, Any]:
    """Compare the last evaluation of each run with that of the first; without evaluations, training as a whole.

    Args:
        turns: of each run, columns as `Follower.turns` has them.

    Returns:
        `on` (what is compared, in words) and `runs`: `id`, `part`, `solved` and `difference` (or None) of each.
    """
    found = [_last(table) for table in turns]
    reference = found[0][1] if found else {}
    runs = [
        {
            "id": number,
            "part": part.label if part else None,
            "solved": asdict(interval(list(shares.values()))) if shares else None,
            "difference": _difference(reference, shares) if number else None,
        }
        for number, (part, shares) in enumerate(found)
    ]
    on = (
        "Share of trajectories with a correct turn, in the last held-out evaluation of each run (training, if it has "
        "none). Differences are paired by problem; intervals are percentile bootstraps over problems."
    )
    return finite({"on": on, "runs": runs})  # type: ignore[no-any-return]


def _last(turns: pa.Table) -> tuple[Part | None, dict[str, float]]:
    parts = parts_of(turns)
    evaluations = [part for part in parts if part.role != TRAIN]
    # The latest evaluation counts, whatever its role.
    ordered = sorted(evaluations, key=lambda part: -1 if part.after_step is None else part.after_step)
    for part in [*reversed(ordered), *parts]:
        shares = solved_shares(part.of(turns))
        if shares:
            return part, shares
    return None, {}


def _difference(first: dict[str, float], second: dict[str, float]) -> dict[str, Any] | None:
    found = difference(first, second)
    return asdict(found) if found else None
