"""Results of the held-out evaluations of a run, kept in the run's `summary.json`.

Its `held_out` has the figures `before` and `after` training, and `steps`: those after single steps, by step. `best` is
the step with the highest score. `gain` compares before and after by measure, with intervals, and `interval` has the
same bounds by the names of figures. `absent` names what is missing and why: an evaluation without a valid turn, and
therefore the comparison.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from warpsmith.records.reader import RunReader
from warpsmith.rollout.metrics import GAINS_FASTER_THAN, Comparison, gains, summarise
from warpsmith.rollout.turns import OPTIMIZER
from warpsmith.trainer.telemetry.batch_metrics import batch_figures

When = Literal["before", "after"] | int
"""Before the first step, after the last one, or after a step in between."""
COMPARISON: Literal["comparison"] = "comparison"
SCORE = "best_score_mean"
"""The figure by which checkpoints are compared."""
LOG_SPEEDUP = "log_speedup"
Row = Mapping[str, Any]

FILE = "summary.json"
_FIGURE_OF = {"solved": "solved_rate", "fast_1.2": "fast_1.2", "fast_2": "fast_2"}


def label(when: When) -> str:
    """Return the label of an evaluation's groups in the records."""
    return f"held-out/{_name(when)}"


def in_words(when: When) -> str:
    """Return when an evaluation is made, as a part of a sentence."""
    return f"after step {when}" if isinstance(when, int) else f"{when} training"


def _name(when: When) -> str:
    return f"step-{when}" if isinstance(when, int) else when


def held_out_rows(run_dir: Path, when: When) -> list[Row]:
    """Return the turns of one evaluation from the records; empty if there was none."""
    turns = RunReader(run_dir).table("turns", latest=True)
    return list(turns.filter(pc.starts_with(turns["group"], f"{label(when)}/")).to_pylist())


def figures_of(table: pa.Table) -> dict[str, float]:
    """Return the figures of an evaluation's turns: those of a batch, and those that count the best turn.

    `best_score_mean` is the mean over valid trajectories of their best score; with agents of the sum of each agent's
    best, that of an optimizer at least 0, because its start remains. `speedup_geomean` is the geometric mean
    of the best speedups of solved trajectories; `fast_<p>` the share of all valid trajectories faster than p. Both
    need timed turns. `turn_<n>/...` of these and of `solved_rate` are of the best turn up to n.
    """
    found = summarise(table.to_pylist())
    figures = batch_figures(table) | _best_scores(table) | _speed(found.speedup, found.fast_p)
    for turn in found.by_turn:
        own = {"solved_rate": turn.solved_by, **_speed(turn.speedup, turn.fast_p)}
        figures |= {f"turn_{turn.turn_number}/{name}": value for name, value in own.items()}
    return figures


def _best_scores(table: pa.Table) -> dict[str, float]:
    valid = table.filter(table["valid"])
    by_agent = valid.group_by(["trajectory", "agent"]).aggregate([("reward", "max")])
    floor = pc.if_else(pc.fill_null(pc.equal(by_agent["agent"], OPTIMIZER), False), 0.0, pa.scalar(float("-inf")))
    scores = by_agent.append_column("best", pc.max_element_wise(by_agent["reward_max"], floor))
    best = pc.mean(scores.group_by("trajectory").aggregate([("best", "sum")])["best_sum"]).as_py()
    return {} if best is None else {SCORE: float(best)}


def _speed(speedup: float | None, fast_p: Mapping[float, float] | None) -> dict[str, float]:
    if speedup is None or fast_p is None:
        return {}
    return {"speedup_geomean": speedup} | {f"fast_{p:g}": fast_p[p] for p in GAINS_FASTER_THAN}


def keep_figures(run_dir: Path, when: When, step: int, figures: Mapping[str, float]) -> None:
    """Add the figures of one evaluation to `summary.json`, and note the best step so far.

    Args:
        run_dir: the run's directory.
        when: which evaluation.
        step: finished steps.
        figures: see `figures_of`.
    """
    found = _read(run_dir)
    held_out = found.setdefault("held_out", {})
    if isinstance(when, int):
        held_out.setdefault("steps", {})[str(when)] = dict(figures)
    else:
        held_out[when] = dict(figures)
        found[f"{when}_step"] = step
    held_out.get("absent", {}).pop(_name(when), None)
    score, best = figures.get(SCORE), held_out.get("best")
    if score is not None and (best is None or score > best["score"]):
        held_out["best"] = {"step": step, "score": score}
    _write(run_dir, found)


def keep_absence(run_dir: Path, what: When | Literal["comparison"], reason: str) -> None:
    """Record in `summary.json` why an evaluation, or the comparison of both, is missing."""
    found = _read(run_dir)
    name = COMPARISON if what == COMPARISON else _name(what)
    found.setdefault("held_out", {}).setdefault("absent", {})[name] = reason
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
    held_out = _read(run_dir).get("held_out", {})
    return str(when) in (held_out.get("steps", {}) if isinstance(when, int) else held_out)


def score_at(run_dir: Path, when: When) -> float | None:
    """Return the score of an evaluation that was made, or None."""
    held_out = _read(run_dir).get("held_out", {})
    figures = held_out.get("steps", {}).get(str(when)) if isinstance(when, int) else held_out.get(when)
    return None if figures is None else figures.get(SCORE)


def best_step(run_dir: Path) -> int | None:
    """Return the finished steps of the policy with the highest score, or None."""
    best = _read(run_dir).get("held_out", {}).get("best")
    return None if best is None else int(best["step"])


def keep_gains(run_dir: Path) -> dict[str, Comparison]:
    """Record in `summary.json` what training changed, by measure with intervals, or why it is missing (`absence`).

    The intervals are paired bootstraps over problems; see `warpsmith.rollout.metrics.gains`. Empty if nothing can be
    compared, or an evaluation was not requested.
    """
    before, after = held_out_rows(run_dir, "before"), held_out_rows(run_dir, "after")
    if not before or not after or absence(run_dir) is not None:
        return {}
    gain = gain_of(before, after)
    if isinstance(gain, str):
        keep_absence(run_dir, COMPARISON, gain)
        return {}
    measured = gains(before, after)
    found = _read(run_dir)
    found["held_out"]["interval"] = {
        _FIGURE_OF[name]: [one.low, one.high] for name, one in measured.items() if name in _FIGURE_OF
    }
    found["held_out"]["gain"] = {name: asdict(one) for name, one in measured.items()}
    _write(run_dir, found)
    return measured


def gain_of(before: Sequence[Row], after: Sequence[Row]) -> Comparison | str:
    """Return the comparison of the solved shares of two evaluations' turns, or why they cannot be compared."""
    if not before or not after:
        return f"there is no evaluation {'after' if before else 'before'} training"
    found = gains(before, after).get("solved")
    return found or "no held-out problem has a valid trajectory both before and after training"


def gain_in_words(name: str, gain: Comparison) -> str:
    """Return one measure's change with its interval; a speedup as the factor that it grew by."""
    if name == LOG_SPEEDUP:
        first, second, factor, low, high = map(
            math.exp, (gain.first, gain.second, gain.difference, gain.low, gain.high)
        )
        return (
            f"speedup {first:.2f} -> {second:.2f}, x {factor:.2f}, 95 % interval {low:.2f} to {high:.2f}, over the "
            f"{gain.problems} problems solved both times"
        )
    return (
        f"{name} {gain.first:.1%} -> {gain.second:.1%}, {gain.difference:+.1%}, 95 % interval {gain.low:+.1%} to "
        f"{gain.high:+.1%} over {gain.problems} problems"
    )


def _read(run_dir: Path) -> dict[str, Any]:
    path = run_dir / FILE
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def _write(run_dir: Path, summary: Mapping[str, Any]) -> None:
    """Replace the file atomically."""
    partial = (run_dir / FILE).with_suffix(".partial")
    partial.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    partial.replace(run_dir / FILE)
