"""Results of the held-out evaluations before and after a run, kept in the run's `summary.json`.

Its `held_out` has `before`, `after` and the `interval` of their difference; `absent` names what is missing and why: an
evaluation without a valid turn, and therefore the comparison.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow.compute as pc

from warpsmith.records.reader import RunReader
from warpsmith.rollout.metrics import Comparison, compare, solved_shares, summarise

When = Literal["before", "after"]
COMPARISON: Literal["comparison"] = "comparison"
Row = Mapping[str, Any]

FILE = "summary.json"


def label(when: When) -> str:
    """Return the label of an evaluation's groups in the records."""
    return f"held-out/{when}"


def held_out_rows(run_dir: Path, when: When) -> list[Row]:
    """Return the turns of one evaluation from the records; empty if there was none."""
    turns = RunReader(run_dir).table("turns", latest=True)
    return list(turns.filter(pc.starts_with(turns["group"], f"{label(when)}/")).to_pylist())


def keep_figures(run_dir: Path, when: When, step: int, figures: Mapping[str, float]) -> None:
    """Add the metrics of one evaluation to `summary.json`."""
    found = _read(run_dir)
    held_out = found.setdefault("held_out", {})
    held_out[when] = dict(figures)
    held_out.get("absent", {}).pop(when, None)
    found[f"{when}_step"] = step
    _write(run_dir, found)


def keep_absence(run_dir: Path, what: When | Literal["comparison"], reason: str) -> None:
    """Record in `summary.json` why an evaluation, or the comparison of both, is missing."""
    found = _read(run_dir)
    found.setdefault("held_out", {}).setdefault("absent", {})[what] = reason
    _write(run_dir, found)


def absence(run_dir: Path) -> str | None:
    """Return why the two evaluations cannot be compared, or None."""
    absent = _read(run_dir).get("held_out", {}).get("absent", {})
    return next((str(absent[what]) for what in ("before", "after", COMPARISON) if what in absent), None)


def is_concluded(run_dir: Path) -> bool:
    """Whether the evaluation after the run was made or found impossible."""
    held_out = _read(run_dir).get("held_out", {})
    return "after" in held_out or "after" in held_out.get("absent", {})


def is_kept(run_dir: Path, when: When) -> bool:
    """Whether an earlier start of the run made this evaluation."""
    return when in _read(run_dir).get("held_out", {})


def keep_gain(run_dir: Path) -> Comparison | None:
    """Record the interval of the gain in solved trajectories in `summary.json`, or why it is missing (`absence`).

    The interval is a paired bootstrap over problems; see `warpsmith.rollout.metrics.compare`. None if it cannot be
    computed, or an evaluation was not requested.
    """
    before, after = held_out_rows(run_dir, "before"), held_out_rows(run_dir, "after")
    if not before or not after or absence(run_dir) is not None:
        return None
    gain = gain_of(before, after)
    if isinstance(gain, str):
        keep_absence(run_dir, COMPARISON, gain)
        return None
    found = _read(run_dir)
    found["held_out"]["interval"] = {"solved_rate": [gain.low, gain.high]}
    _write(run_dir, found)
    return gain


def gain_of(before: Sequence[Row], after: Sequence[Row]) -> Comparison | str:
    """Return the comparison of two evaluations' turns, or why they cannot be compared."""
    if not before or not after:
        return f"there is no evaluation {'after' if before else 'before'} training"
    first, second = (solved_shares(summarise(rows).to_json()) for rows in (before, after))
    if not set(first) & set(second):
        return "no held-out problem has a valid trajectory both before and after training"
    return compare(first, second)


def _read(run_dir: Path) -> dict[str, Any]:
    path = run_dir / FILE
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def _write(run_dir: Path, summary: Mapping[str, Any]) -> None:
    """Replace the file atomically."""
    partial = (run_dir / FILE).with_suffix(".partial")
    partial.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    partial.replace(run_dir / FILE)
