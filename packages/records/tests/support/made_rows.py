"""Made rows: turns, credits and steps as a run would record them, small and deterministic."""

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa

from warpsmith.records.schema import credits_batch, steps_batch, turns_batch
from warpsmith.records.writer import Compression, RunWriter

Row = dict[str, Any]
EPISODES = [["correct"], ["incorrect", "correct"], ["compile_error", "compile_error"], ["incorrect"] * 3]
MORNING = dt.datetime(2025, 8, 7, 8, 48, 1, 411804, tzinfo=dt.UTC)


def verdict(status: str = "correct", speedup: float | None = 1.5) -> Row:
    correct = status == "correct"
    return {
        "status": status,
        "compiled": status != "compile_error",
        "correct": correct,
        "speedup": speedup if correct else None,
        "runtime_ms": 2.0 / speedup if correct and speedup else None,
        "reference_ms": 2.0 if correct and speedup else None,
        "timing_tier": "events" if correct and speedup else "none",
        "isolation_tier": "namespaces",
        "recording": "detached",
        "flags": [],
        "error_category": None if correct else "triton_compilation_error",
        "error_message": None if correct else f"it failed with {status}",
        "max_abs_error": 1e-6 if correct else float("inf"),
        "mismatched_fraction": 0.0 if correct else 0.25,
        "trials": 5,
        "cached": False,
        "device": "cpu",
        "seconds": {"compile": 0.1, "wait": 0.01, "evaluate": 0.2},
        "figures": [],
    }


def turn_row(trajectory: str = "t0", turn: int = 0, num_turns: int = 1, **changes: Any) -> Row:
    row: Row = {
        "run": "demo",
        "task": "kernelbench_multiturn",
        "role": "train",
        "problem": "kernelbench_1",
        "source": "generated",
        "level": 1,
        "group": "g0",
        "trajectory": trajectory,
        "sample": 0,
        "turn": turn,
        "num_turns": num_turns,
        "after_step": None,
        "rollout_step": None,
        "stage": None,
        "agent": None,
        "messages": [{"role": "system", "content": "Write a kernel."}, {"role": "user", "content": f"turn {turn}"}],
        "completion": "```python\nclass ModelNew: ...\n```",
        "kernel": "class ModelNew: ...",
        "prompt_ids": [1, 2, 3],
        "completion_ids": [4, 5, 6, 7],
        "logprobs": [-0.1, -0.2, -0.3, -0.4],
        "weight_versions": [0, 0, 0, 1],
        "finish_reason": "stop",
        "sampling": {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "max_tokens": 64, "seed": 7},
        "verdict": verdict(),
        "reward": 0.8,
        "return": 0.8,
        "speedup_over_start": None,
        "valid": True,
        "invalid_reason": None,
        "started_at": MORNING + dt.timedelta(seconds=turn),
        "generate_s": 0.5,
        "compile_s": 0.1,
        "wait_s": 0.01,
        "evaluate_s": 0.2,
    }
    return {**row, **changes}


def turns(*trajectories: str) -> pa.RecordBatch:
    """A batch of one turn for each trajectory."""
    return turns_batch([turn_row(name) for name in trajectories])


def credit_row(trajectory: str = "t0", turn: int = 0, step: int = 0, **changes: Any) -> Row:
    row: Row = {
        "run": "demo",
        "trajectory": trajectory,
        "turn": turn,
        "estimator": "turn",
        "advantage": 0.5,
        "step": step,
        "weight_version": step,
        "group_size": 2,
    }
    return {**row, **changes}


def step_row(step: int = 0, **changes: Any) -> Row:
    row: Row = {
        "run": "demo",
        "step": step,
        "weight_version": step,
        "started_at": MORNING + dt.timedelta(minutes=step),
        "seconds": 10.0,
        "loss": 1.0 / (step + 1),
        "reward_mean": 0.1 * step,
        "correct_rate": min(1.0, 0.2 * step),
        "metrics": {"loss": 1.0 / (step + 1), "queue/depth": float(step)},
    }
    return {**row, **changes}


def trajectory_rows(trajectory: str, statuses: list[str], *, speedup: float = 1.5, **changes: Any) -> list[Row]:
    """Turns scored as 0.1 for compiled or 0.3 + min(speedup - 1, 2) for correct, discounted by 0.4."""
    scores = [0.3 + speedup - 1 if s == "correct" else 0.0 if s == "compile_error" else 0.1 for s in statuses]
    returns = [sum(0.4 ** (i - t) * scores[i] for i in range(t, len(scores))) for t in range(len(scores))]
    return [
        turn_row(
            trajectory,
            turn,
            len(statuses),
            verdict=verdict(status, speedup),
            reward=scores[turn],
            **{"return": returns[turn], **changes},
        )
        for turn, status in enumerate(statuses)
    ]


def a_run(steps: int = 3) -> dict[str, list[pa.RecordBatch]]:
    """Batches of a run: each step two problems with two samples each, then its credits and its step row."""
    batches: dict[str, list[pa.RecordBatch]] = {"turns": [], "credits": [], "steps": []}
    for step in range(steps):
        rows: list[Row] = []
        for number, statuses in enumerate(
            [["correct"], ["incorrect", "correct"], ["compile_error"] * 2, ["incorrect"] * 3]
        ):
            rows += trajectory_rows(
                f"s{step}-t{number}",
                statuses,
                speedup=1.5 + step,
                problem=f"kernelbench_{number // 2}",
                group=f"s{step}-g{number // 2}",
                sample=number % 2,
                role="train" if number // 2 == 0 else "held_out",
            )
        batches["turns"].append(turns_batch(rows))
        batches["credits"].append(credits_batch([credit_row(row["trajectory"], row["turn"], step) for row in rows]))
        batches["steps"].append(steps_batch([step_row(step)]))
    return batches


def write_run(run_dir: Path, steps: int = 3, compression: Compression | None = None) -> Path:
    with RunWriter(run_dir, compression=compression) as writer:
        for table, batches in a_run(steps).items():
            for batch in batches:
                writer.append(table, batch)
    return run_dir
