"""What the evaluations on held-out problems came to, before and after a run: kept in the run's `summary.json`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pyarrow.compute as pc

from warpsmith.records.reader import RunReader
from warpsmith.rollout.evaluation import Comparison, compare, solved_shares, summarise

When = Literal["before", "after"]
Row = Mapping[str, Any]

FILE = "summary.json"


def label(when: When) -> str:
    """Return the label under which an evaluation's groups stand in the records."""
    return f"held-out/{when}"


def held_out_rows(run_dir: Path, when: When) -> list[Row]:
    """Return the turns of one evaluation from the records, none where there was none."""
    turns = RunReader(run_dir).table("turns", latest=True)
    return list(turns.filter(pc.starts_with(turns["group"], f"{label(when)}/")).to_pylist())


def keep_figures(run_dir: Path, when: When, step: int, figures: Mapping[str, float]) -> None:
    """Put the figures of one evaluation into `summary.json`, beside those of the other."""
    found = _read(run_dir)
    found.setdefault("held_out", {})[when] = dict(figures)
    found[f"{when}_step"] = step
    _write(run_dir, found)


def is_kept(run_dir: Path, when: When) -> bool:
    """Whether an earlier start of the run has made this evaluation."""
    return when in _read(run_dir).get("held_out", {})


def keep_gain(run_dir: Path) -> Comparison | None:
    """Put the interval of the gain in solved trajectories into `summary.json`; None unless both evaluations are there.

    The interval is a paired bootstrap over problems; see `warpsmith.rollout.evaluation.compare`.
    """
    before, after = held_out_rows(run_dir, "before"), held_out_rows(run_dir, "after")
    if not before or not after:
        return None
    gain = compare(*(solved_shares(summarise(rows).to_json()) for rows in (before, after)))
    found = _read(run_dir)
    found["held_out"]["interval"] = {"solved_rate": [gain.low, gain.high]}
    _write(run_dir, found)
    return gain


def _read(run_dir: Path) -> dict[str, Any]:
    path = run_dir / FILE
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def _write(run_dir: Path, summary: Mapping[str, Any]) -> None:
    """Replace the file whole."""
    partial = (run_dir / FILE).with_suffix(".partial")
    partial.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    partial.replace(run_dir / FILE)
