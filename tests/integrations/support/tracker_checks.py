"""Logs steps to real trackers through the trainer's step log, starts again, and reads back what they kept."""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

os.environ["TRACKIO_DIR"] = str(Path("trackio").resolve())

from warpsmith.records.writer import RunWriter
from warpsmith.trainer.config.sections import RunSection, TrackersSection, WandbSection
from warpsmith.trainer.telemetry.step_log import StepLog

DATABASE = f"sqlite:///{Path('mlflow.db').resolve()}"
TRACKERS = TrackersSection(tensorboard=True, mlflow=DATABASE, trackio="warpsmith")
NAMES = {"reward_mean": 0.25, "turn_1/correct_rate": 0.5, "seconds/train": 3.0}


def log(steps):
    run = RunSection(dir="run")
    now = datetime.now(UTC)
    with RunWriter("run") as writer, StepLog(writer, run, WandbSection(mode="disabled"), run, TRACKERS) as steps_log:
        for step in steps:
            figures = {name: value + step for name, value in NAMES.items()} | {"not_a_number": float("nan")}
            steps_log.step(step, weight_version=step, started_at=now, seconds=0.5, figures=figures)
        steps_log.held_out(steps[-1], {"fast_1": 0.5})
        steps_log.warn("slow", "Sampling takes most of the step.")


def tensorboard():
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator("run/tensorboard").Reload()
    return {name: [(one.step, one.value) for one in events.Scalars(name)] for name in events.Tags()["scalars"]}


def mlflow():
    from mlflow import MlflowClient

    client = MlflowClient(DATABASE)
    [run] = client.search_runs([client.get_experiment_by_name("warpsmith").experiment_id])
    assert run.info.status == "FINISHED" and run.data.params["dir"] == "run", run
    assert run.data.tags["warning"] == "slow: Sampling takes most of the step."
    return {
        name: [(one.step, one.value) for one in client.get_metric_history(run.info.run_id, name)]
        for name in run.data.metrics
    }


def trackio():
    from trackio.sqlite_storage import SQLiteStorage

    [name] = SQLiteStorage.get_runs("warpsmith")
    found = {}
    for row in SQLiteStorage.get_logs("warpsmith", name):
        for figure, value in row.items():
            if figure not in ("step", "timestamp") and isinstance(value, int | float):
                found.setdefault(figure, []).append((row["step"], value))
    return found


def main():
    log([1, 2])
    log([3])
    for read in (tensorboard, mlflow, trackio):
        kept = read()
        assert "not_a_number" not in kept, read.__name__
        assert [step for step, _ in kept["held_out/fast_1"]] == [2, 3], (read.__name__, kept)
        for name, value in NAMES.items():
            assert sorted(kept[name]) == [(step, value + step) for step in (1, 2, 3)], (read.__name__, name, kept)
        sys.stdout.write(f"{read.__name__} kept {len(kept)} figures\n")


if __name__ == "__main__":
    main()
