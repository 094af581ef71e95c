"""What a verification found: how many of the kernels that a data set calls correct are correct."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from warpsmith.evaluator.verdict import STATUSES
from warpsmith.records.folders import new_file, write_file
from warpsmith.rollout.datasets.formats import Entry
from warpsmith.rollout.datasets.registry import Dataset
from warpsmith.rollout.datasets.verification import Outcome, Outcomes

SUMMARY: Final = "summary.json"
ROWS: Final = "rows.parquet"
CLAIMS: Final = ("correct", "wrong", "nothing")
WRONG: Final = ("incorrect", "compile_error", "runtime_error", "timeout", "rejected")
"""Statuses that a wrong kernel has; `undecided`, `invalid` and `refused` say nothing about a kernel."""
_WAITING: Final = Outcome("waiting")


def claim_of(entry: Entry) -> str:
    """Return what a data set says about a kernel: one of `CLAIMS`."""
    return {True: "correct", False: "wrong", None: "nothing"}[entry.claim.correct]


def summary_of(dataset: Dataset, outcomes: Outcomes) -> dict[str, Any]:
    """Return the counts of a verification.

    Returns:
        `rows` (with a kernel), `without_kernel`, `unusable` (malformed rows), `waiting` (no verdict yet); `claims`, by
        what the data set says: `rows`, `by_status`, `correct`, `wrong`, and `share_correct`, the correct ones of those
        two; `by_level`, the same of rows claimed correct; `speedups` of correct and timed rows with a claimed speedup:
        `rows`, medians `claimed` and `measured`.
    """
    rows = [entry for entry in dataset.entries if entry.kernel is not None]
    found = [(entry, outcomes.get(entry.key, _WAITING)) for entry in rows]
    levels = sorted({entry.level for entry in rows if entry.level is not None})
    claimed = [(entry, outcome) for entry, outcome in found if entry.claim.correct]
    return {
        "dataset": str(dataset.path),
        "type": dataset.type,
        "rows": len(rows),
        "kernels": len({entry.key for entry in rows}),
        "without_kernel": len(dataset.entries) - len(rows),
        "unusable": len(dataset.refusals),
        "waiting": sum(not outcome.settled or outcome is _WAITING for _, outcome in found),
        "claims": {
            claim: _counts([outcome for entry, outcome in found if claim_of(entry) == claim]) for claim in CLAIMS
        },
        "by_level": {
            str(level): _counts([outcome for entry, outcome in claimed if entry.level == level]) for level in levels
        },
        "speedups": _speedups(found),
    }


def _counts(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    by_status = Counter(outcome.status for outcome in outcomes)
    wrong = sum(by_status[status] for status in WRONG)
    decided = by_status["correct"] + wrong
    known = [*STATUSES, "refused", "waiting"]
    return {
        "rows": len(outcomes),
        "correct": by_status["correct"],
        "wrong": wrong,
        "share_correct": by_status["correct"] / decided if decided else None,
        "by_status": {status: by_status[status] for status in known if by_status[status]},
    }


def _speedups(found: Sequence[tuple[Entry, Outcome]]) -> dict[str, Any] | None:
    timed = [
        (entry.claim.speedup, outcome.speedup)
        for entry, outcome in found
        if outcome.status == "correct" and outcome.speedup is not None and entry.claim.speedup is not None
    ]
    if not timed:
        return None
    claimed, measured = (sorted(side)[len(timed) // 2] for side in zip(*timed, strict=True))
    return {"rows": len(timed), "claimed": claimed, "measured": measured}


def lines_of(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield the summary for a terminal."""
    yield (
        f"{summary['rows']:,} rows with a kernel ({summary['kernels']:,} different ones); "
        f"{summary['without_kernel']:,} without, {summary['unusable']:,} not usable"
    )
    titles = {"correct": "claimed correct", "wrong": "claimed wrong", "nothing": "nothing claimed"}
    for claim, title in titles.items():
        if counts := summary["claims"][claim]:
            yield from _line(title, counts)
    for level, counts in summary["by_level"].items():
        yield from _line(f"  level {level}, claimed correct", counts)
    if speedups := summary["speedups"]:
        yield (
            f"median speedup of {speedups['rows']:,} correct rows: claimed {speedups['claimed']:.2f}x, "
            f"measured {speedups['measured']:.2f}x"
        )
    if any("undecided" in counts["by_status"] for counts in summary["claims"].values()):
        yield "undecided: nothing here runs these kernels, or a chip computes differently; a GPU can decide"
    if summary["waiting"]:
        yield f"{summary['waiting']:,} rows have no verdict yet (the evaluator failed, or it was stopped); run it again"


def _line(title: str, counts: Mapping[str, Any]) -> Iterator[str]:
    if not counts["rows"]:
        return
    share, decided = counts["share_correct"], counts["correct"] + counts["wrong"]
    of = "none decided" if share is None else f"{counts['correct']:,} of {decided:,} decided are correct ({share:.1%})"
    statuses = ", ".join(f"{status} {count:,}" for status, count in counts["by_status"].items())
    yield f"{title}: {counts['rows']:,}; {of}; {statuses}"


def write_results(output: Path, dataset: Dataset, outcomes: Outcomes, summary: Mapping[str, Any]) -> None:
    """Write the summary, and a table with one row per row of the data set, its claim and its verdict."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [_row(entry, outcomes.get(entry.key)) for entry in dataset.entries if entry.kernel is not None]
    with new_file(output / ROWS) as unfinished:
        pq.write_table(pa.Table.from_pylist(rows, schema=_schema()), unfinished)
    write_file(output / SUMMARY, json.dumps(summary, indent=2) + "\n")


def _schema() -> Any:
    import pyarrow as pa

    texts = ("place", "label", "problem", "language", "trajectory_key", "claimed_error", "status", "detail")
    types = {name: pa.string() for name in texts} | {
        "level": pa.int32(), "claimed_correct": pa.bool_(), "claimed_speedup": pa.float64(), "speedup": pa.float64(),
    }  # fmt: skip
    order = (
        "place", "label", "problem", "level", "language", "trajectory_key", "claimed_correct", "claimed_speedup",
        "claimed_error", "status", "speedup", "detail",
    )  # fmt: skip
    return pa.schema([(name, types[name]) for name in order])


def _row(entry: Entry, outcome: Outcome | None) -> dict[str, Any]:
    return {
        "place": entry.place,
        "label": entry.label,
        "problem": entry.name,
        "level": entry.level,
        "language": entry.language,
        "trajectory_key": entry.key,
        "claimed_correct": entry.claim.correct,
        "claimed_speedup": entry.claim.speedup,
        "claimed_error": entry.claim.error,
        "status": outcome.status if outcome else None,
        "speedup": outcome.speedup if outcome else None,
        "detail": (outcome.detail or None) if outcome else None,
    }
