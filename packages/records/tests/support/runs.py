"""A run with evaluations before and after, and hostile names and texts; rows come from made_rows."""

from pathlib import Path

from made_rows import credit_row, step_row, trajectory_rows

from warpsmith.records import RunWriter
from warpsmith.records.schema import credits_batch, steps_batch, turns_batch

ATTACK = "</script><script>window.owned = 1</script><img src=x onerror='window.owned = 2'>"
SOLVED_AFTER = 6
PROBLEMS = 8


def write_evaluated_run(run_dir: Path, *, name: str = "demo", solved_after: int = SOLVED_AFTER) -> Path:
    """Eight held-out problems, two solved before and `solved_after` after two steps of training."""
    with RunWriter(run_dir) as writer:
        write_evaluation(writer, 0, 2, name)
        for step in (1, 2):
            write_step(writer, step, name)
        write_evaluation(writer, 2, solved_after, name)
    return run_dir


def write_evaluation(writer: RunWriter, after: int, solved: int, name: str = "demo") -> None:
    """One trajectory for each problem; the solved ones are solved at turn 2."""
    rows = []
    for number in range(PROBLEMS):
        statuses = ["incorrect", "correct" if number < solved else "compile_error"]
        rows += trajectory_rows(
            f"held-{after}/{number}", statuses, role="held_out", after_step=after, problem=f"held_{number}", run=name
        )
    writer.append("turns", turns_batch(rows))


def write_step(writer: RunWriter, step: int, name: str = "demo") -> None:
    """One training step, a stage of its own, of two trajectories, the second with another kernel at turn 2."""
    first = trajectory_rows(
        f"step-{step}/0", ["incorrect"], after_step=step - 1, rollout_step=step, problem="train_0", run=name,
        level=1, stage=step,
    )  # fmt: skip
    second = trajectory_rows(
        f"step-{step}/1", ["incorrect", "correct"], speedup=2.5, after_step=step - 1, rollout_step=step,
        problem="train_1", run=name, level=2, stage=step,
    )  # fmt: skip
    second[0]["kernel"] = "import torch\n\nx = 1\nclass ModelNew: ..."
    second[1]["kernel"] = "import torch\n\nx = 2\nclass ModelNew: ..."
    second[0]["verdict"]["flags"] = ["slower_than_reference"]
    rows = [*first, *second]
    writer.append("turns", turns_batch(rows))
    credits = [credit_row(row["trajectory"], row["turn"], step, run=name) for row in rows]
    writer.append("credits", credits_batch(credits))
    metrics = {"health/constant": 0.0, "queue/depth": float(step), "gpu_0/utilization": 0.5 + step / 10}
    metrics |= {"gpu_0/memory_share": 0.6 + step / 10, "evaluator/busy_share": 0.3 + step / 10}
    writer.append("steps", steps_batch([step_row(step, run=name, collect_s=3.0, train_s=1.0, metrics=metrics)]))


def write_hostile_run(run_dir: Path) -> Path:
    """A run in which every text is an attack on the page."""
    attacked = dict.fromkeys(("problem", "source", "completion", "kernel", "group", "trajectory"), ATTACK)
    rows = []
    for after, role in ((0, "held_out"), (0, "train"), (1, "held_out")):
        rows += trajectory_rows("x", ["incorrect", "incorrect"], role=role, after_step=after)
    for number, row in enumerate(rows):
        messages = [{"role": ATTACK, "content": ATTACK}]
        row.update(attacked, trajectory=f"{ATTACK}{number // 2}", messages=messages)
        row["verdict"] |= {"status": ATTACK, "error_category": ATTACK, "error_message": ATTACK, "flags": [ATTACK]}
    with RunWriter(run_dir) as writer:
        writer.append("turns", turns_batch(rows))
        metrics = {ATTACK: 1.0, f"gpu {ATTACK}": 1.0}
        steps = [step_row(step, metrics={k: v * step for k, v in metrics.items()}) for step in (1, 2)]
        writer.append("steps", steps_batch(steps))
    (run_dir / "config.json").write_text(f'{{"policy": {{"path": "{ATTACK}"}}}}'.replace("'", "`"))
    return run_dir
