"""W&B's own process may end when it likes: the run goes on, and at its end nothing is left to fail."""

import json
import subprocess
import sys

import pytest

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
        strike("before it is told of the end")
"""


@pytest.mark.parametrize("moment", ["never", "while it runs", "before it is told of the end"])
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
    # W&B takes a step as whole once another begins.
    for step in (1, 2, 3):
        told = {name: value + step for name, value in figures.items()} | {"not_a_number": float("nan")}
        log.step(step, weight_version=step, started_at=datetime.now(timezone.utc), seconds=0.5, figures=told)
    print(json.dumps(dict(wandb.run.summary)))
"""


def test_weights_and_biases_gets_every_figure_of_the_table(tmp_path):
    figures = {"reward_mean": 0.25, "turn_1/correct_rate": 0.5, "kl_reference": 0.001, "grad_norm_max": 3.0}
    done = subprocess.run(
        [sys.executable, "-c", ALIKE, str(tmp_path / "run"), json.dumps(figures)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = {name: value for name, value in json.loads(done.stdout).items() if not name.startswith("_")}
    _, row, _ = RunReader(tmp_path / "run").table("steps", latest=True).to_pylist()
    assert dict(row["metrics"]) == {name: value + 2 for name, value in figures.items()}
    assert told == {**dict(row["metrics"]), "weight_version": 2, "seconds": 0.5}
