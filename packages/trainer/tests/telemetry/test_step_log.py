"""W&B's own process may end when it likes: the run goes on, and at its end nothing is left to fail."""

import json
import struct
import subprocess
import sys

import pytest
from wandb.proto import wandb_internal_pb2

from warpsmith.records import RunReader

pytestmark = pytest.mark.slow

RUN = """
import sys
from datetime import datetime, timezone

import psutil

from warpsmith.records.writer import RunWriter
from warpsmith.trainer.config.sections import RunSection, WandbSection
from warpsmith.trainer.telemetry.step_log import StepLog

folder, moment = sys.argv[1:]
run = RunSection(dir=folder)


def strike(now):
    if now == moment:
        (service,) = [one for one in psutil.Process().children(recursive=True) if one.name() == "wandb-core"]
        service.kill()
        service.wait()


with RunWriter(folder) as writer:
    with StepLog(writer, run, WandbSection(mode="offline"), run) as log:
        for step in (1, 2, 3):
            if step == 2:
                strike("while it runs")
            log.step(
                step, weight_version=step, started_at=datetime.now(timezone.utc), seconds=1.0, figures={"loss": 0.5}
            )
            log.warn("title", "text")
        strike("before it is notified of the end")
"""


@pytest.mark.parametrize("moment", ["never", "while it runs", "before it is notified of the end"])
def test_a_service_that_is_lost_costs_nothing_but_itself(tmp_path, moment):
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path / "run"), moment],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert done.stderr.count("W&B failed") == (moment != "never")
    steps = RunReader(tmp_path / "run").table("steps", latest=True).to_pylist()
    assert [row["step"] for row in steps] == [1, 2, 3]


ALIKE = """
import json
import sys
from datetime import datetime, timezone

import wandb

from warpsmith.records.writer import RunWriter
from warpsmith.trainer.config.sections import RunSection, WandbSection
from warpsmith.trainer.telemetry.step_log import StepLog

folder, figures = sys.argv[1], json.loads(sys.argv[2])
run = RunSection(dir=folder)
with RunWriter(folder) as writer, StepLog(writer, run, WandbSection(mode="offline"), run) as log:
    # As a run does that was killed after step 3 and resumed from its checkpoint of step 1.
    for step in (1, 2, 3, 2, 3):
        step_figures = {name: value + step for name, value in figures.items()} | {"not_a_number": float("nan")}
        log.step(step, weight_version=step, started_at=datetime.now(timezone.utc), seconds=0.5, figures=step_figures)
    log.held_out(3, {"solved_rate": 0.75})
    summary = wandb.run.summary
    found = {name: dict(summary[name]) if hasattr(summary[name], "keys") else summary[name] for name in summary.keys()}
    print(json.dumps(found))
"""


def messages(log):
    """Yield the messages of a log in LevelDB's format: blocks of 32 KiB with parts, each with a head of 7 bytes."""
    at, whole = 7, b""
    while at + 7 <= len(log):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        length, kind = struct.unpack_from("<HB", log, at + 4)
        whole += log[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield whole
            whole = b""


def logged(run):
    """Return what W&B's file has: the rows by figure, and the definition of each figure."""
    [file] = (run / "wandb").glob("offline-run-*/run-*.wandb")
    rows, defined = [], {}
    for data in messages(file.read_bytes()):
        record = wandb_internal_pb2.Record.FromString(data)
        if record.WhichOneof("record_type") == "history":
            items = record.history.item
            rows.append({item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items})
        elif record.WhichOneof("record_type") == "metric":
            metric = record.metric
            defined[metric.name or metric.glob_name] = metric
    return rows, defined


def test_weights_and_biases_gets_every_figure_of_the_table_on_the_axis_of_steps(tmp_path):
    figures = {"reward_mean": 0.25, "turn_1/correct_rate": 0.5, "kl_reference": 0.001, "loss": 3.0}
    done = subprocess.run(
        [sys.executable, "-c", ALIKE, str(tmp_path / "run"), json.dumps(figures)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = {name: value for name, value in json.loads(done.stdout).items() if not name.startswith("_")}
    *_, row = RunReader(tmp_path / "run").table("steps", latest=True).to_pylist()
    assert dict(row["metrics"]) == {name: value + 3 for name, value in figures.items()}
    aggregates = {
        "reward_mean": {"last": 3.25, "max": 3.25},
        "loss": {"last": 6.0, "min": 4.0},
        "held_out/solved_rate": {"last": 0.75, "max": 0.75},
    }
    assert summary == {**dict(row["metrics"]), "weight_version": 3, "seconds": 0.5, "step": 3, **aggregates}
    rows, defined = logged(tmp_path / "run")
    assert [row["step"] for row in rows] == [1, 2, 3, 2, 3, 3]
    assert [row.get("reward_mean") for row in rows] == [1.25, 2.25, 3.25, 2.25, 3.25, None]
    assert defined["*"].step_metric == "step" and defined["step"].options.hidden
    assert defined["loss"].step_metric == "step" and defined["loss"].summary.min
