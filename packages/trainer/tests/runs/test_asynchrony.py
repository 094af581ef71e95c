"""Real asynchronous runs: rollouts go on while the ranks train, within the bound; killed, stopped and resumed."""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pyarrow.compute as pc
import pytest

from warpsmith.records.reader import RunReader

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

STEPS, PROMPTS, SAMPLES = 6, 2, 2


def command(config: Path, run: Path, bound: int, *more: object) -> list[str]:
    values = (f"run.dir={run}", f"algorithm.max_staleness={bound}", f"run.steps={STEPS}", "checkpoint.every=2")
    overrides = [part for value in values for part in ("--set", value)]
    return [sys.executable, "-m", "warpsmith.trainer", "grpo", str(config), *overrides, *map(str, more)]


def finish(*arguments: Any, code: int = 0) -> str:
    ended = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=400, check=False)
    said = ended.stdout + ended.stderr
    assert ended.returncode == code, said[-4000:]
    return said


def started(*arguments: Any) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def read_until(process: "subprocess.Popen[str]", text: str) -> str:
    """Return what a process says up to a line that has `text`."""
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if text in line:
            return said
    raise AssertionError(said[-4000:])


@pytest.fixture
def config(tiny: Path, grpo_text: str, tmp_path: Path) -> Path:
    path = tmp_path / "grpo.toml"
    path.write_text(grpo_text.format(run=tmp_path / "unused", policy=tiny, stage=2, wandb="disabled"))
    return path


def check_run(run: Path, bound: int, *, ended: bool = True) -> Counter[int]:
    """Look at everything a run recorded; return how many tokens were trained at each staleness.

    What was stopped (not `ended`) may have recorded turns that no step has trained yet.
    """
    reader = RunReader(run)
    assert not [report.damage for report in reader.verify() if report.damage]
    turns, credits, steps = (reader.table(name, latest=True).to_pylist() for name in ("turns", "credits", "steps"))
    assert [row["step"] for row in steps] == list(range(1, (STEPS if ended else len(steps)) + 1))
    begins = {
        row["step"]: before for row, before in zip(steps, [0, *(r["weight_version"] for r in steps)], strict=False)
    }
    trained = [row for row in turns if row["role"] == "train" and (ended or _step_of(row) in begins)]
    whole = Counter(name.split("/")[0] for name in {row["trajectory"] for row in trained})
    assert whole == {f"step-{step}": PROMPTS * SAMPLES for step in begins}
    of_trajectory = defaultdict(list)
    ages: Counter[int] = Counter()
    for row in trained:
        of_trajectory[row["trajectory"]].append((row["turn"], row["num_turns"]))
        assert len(set(row["weight_versions"])) <= 1, "one turn, one version"
        ages.update(begins[row["after_step"] + 1] - version for version in row["weight_versions"])
    for found in of_trajectory.values():
        assert sorted(found) == [(turn, len(found)) for turn in range(len(found))]
    assert all(0 <= age <= bound for age in ages), ages
    credited = [(row["trajectory"], row["turn"]) for row in credits]
    assert sorted(credited) == sorted((row["trajectory"], row["turn"]) for row in trained if row["valid"])
    assert all(0 <= row["staleness"] <= bound for row in credits)
    assert max(dict(row["metrics"])["staleness_max"] for row in steps) == max(ages)
    return ages


def _step_of(row: dict[str, Any]) -> int:
    return int(row["trajectory"].split("/")[0].removeprefix("step-"))


def with_dropout(model: Path, folder: Path) -> Path:
    """Copy a model to where its configuration asks for dropout, which no sampler has."""
    shutil.copytree(model, folder)
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "attention_dropout": 0.5}))
    return folder


def test_two_ranks_under_stage_3_train_a_value_head_ahead_until_a_signal(
    config: Path, tiny: Path, tmp_path: Path
) -> None:
    policy = with_dropout(tiny, tmp_path / "policy")
    values = [
        f"policy.path={policy}", "held_out=unset", "zero.stage=3", "zero.packing=true", "algorithm.type=ppo",
        "algorithm.estimator.value_lr=0.01",
    ]  # fmt: skip
    more = ["--num-processes", "2", *(part for value in values for part in ("--set", value))]
    run, said = check_signal(config, tmp_path, 1, 3, *more)
    assert "value loss" in said
    assert re.search(r"Dropout in \d+ places of the model is switched off", said)
    # Before the first update the ratio to what the sampler said is one, except for the two programs' rounding.
    credits = RunReader(run).table("credits", latest=True).to_pylist()
    ratios = [row["ratio_mean"] for row in credits if row["step"] == 1]
    assert ratios
    assert ratios == pytest.approx([1.0] * len(ratios), abs=1e-2)


@pytest.mark.long
@pytest.mark.parametrize("bound", [0, 1])
def test_a_signal_ends_the_step_and_leaves_a_checkpoint(config: Path, tmp_path: Path, bound: int) -> None:
    """With a bound above 0 rollouts go on while the ranks train."""
    check_signal(config, tmp_path, bound, STEPS)


def check_signal(config: Path, tmp_path: Path, bound: int, steps: int, *more: str) -> tuple[Path, str]:
    """Start a run, send it SIGINT after so many steps and look at what it leaves; return its directory and output."""
    run = tmp_path / "run"
    process = started(config, run, bound, "--steps", "1000", "--set", "checkpoint.every=0", *more)
    try:
        said = read_until(process, f"[Step {steps} of")
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=240)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, (said + rest)[-4000:]
    assert "SIGINT: finishing this step" in rest
    assert "resume with --resume" in rest
    _, alive = psutil.wait_procs(family, timeout=60)
    assert not alive
    assert list((run / "checkpoints").glob("step-*/state.json"))
    assert max(check_run(run, bound, ended=False)) == bound, "nothing was sampled ahead"
    if bound:
        check_overlap(run)
    return run, said + rest


def check_overlap(run: Path) -> None:
    """See that some turn began while a step's weights were being updated."""
    reader = RunReader(run)
    training = [
        (row["started_at"] + timedelta(seconds=row["collect_s"]), row["started_at"] + timedelta(seconds=row["seconds"]))
        for row in reader.table("steps", latest=True).to_pylist()
    ]
    turns = reader.table("turns", latest=True)
    begun = turns.filter(pc.equal(turns["role"], "train"))["started_at"].to_pylist()
    assert any(begin < moment < end for begin, end in training for moment in begun), "no turn began during training"


@pytest.mark.long
@pytest.mark.parametrize("bound", [1, 2])
def test_what_is_held_out_is_sampled_by_the_first_and_by_the_last_weights(
    config: Path, tmp_path: Path, bound: int
) -> None:
    run = tmp_path / "run"
    finish(config, run, bound)
    assert max(check_run(run, bound)) >= 1, "nothing was sampled ahead"
    check_overlap(run)
    turns = RunReader(run).table("turns", latest=True)
    held_out = turns.filter(pc.equal(turns["role"], "held_out"))
    alone = {name: set(rows) for name, rows in _versions_by_label(held_out).items()}
    assert alone == {"held-out/before": {0}, "held-out/after": {STEPS}}


def _versions_by_label(turns: Any) -> dict[str, list[int]]:
    found = defaultdict(list)
    for row in turns.to_pylist():
        found[row["group"].rsplit("/", 1)[0]] += row["weight_versions"]
    return found


@pytest.mark.long
def test_a_killed_run_resumes_within_the_bound_and_trains_what_it_recorded(config: Path, tmp_path: Path) -> None:
    seed = int(os.environ.get("WARPSMITH_KILL_SEED", random.SystemRandom().getrandbits(32)))
    turns = random.Random(seed).randint(2, PROMPTS * SAMPLES * 2 * (STEPS - 2))
    print(f"WARPSMITH_KILL_SEED={seed}: killed after {turns} turns")
    run = tmp_path / "run"
    kill_after(config, run, turns, "--set", "held_out=unset")
    left = RunReader(run, on_damage="skip").table("turns") if (run / "records").is_dir() else None
    finish(config, run, 1, "--resume", "--set", "held_out=unset")
    check_run(run, 1)
    if left is not None:
        assert RunReader(run).table("turns").num_rows == RunReader(run).table("turns", latest=True).num_rows, (
            "a batch that was recorded was sampled again"
        )


def kill_after(config: Path, run: Path, turns: int, *more: object) -> None:
    """Start a run and kill all of it once it has reported so many turns."""
    process = started(config, run, 1, *more)
    assert process.stdout is not None
    for line in process.stdout:
        turns -= line.startswith("[Turn")
        if turns <= 0:
            break
    assert process.poll() is None
    for member in [process, *psutil.Process(process.pid).children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)


@pytest.mark.long
def test_a_signal_finishes_the_step_and_what_is_recorded_is_trained_later(config: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    more = ("--set", "held_out=unset")
    process = started(config, run, 2, *more)
    said = read_until(process, "[Step 1 of")
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    said += process.communicate(timeout=120)[0]
    assert process.returncode == 0, said[-4000:]
    assert "resume with --resume" in said
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive
    finish(config, run, 2, "--resume", *more)
    check_run(run, 2)


@pytest.mark.long
def test_a_sampler_that_is_gone_ends_the_run_with_its_own_error(config: Path, tmp_path: Path) -> None:
    """Each engine is killed as soon as it is there, until the pool gives up or a restart fails."""
    run = tmp_path / "run"
    process = started(config, run, 1, "--set", "held_out=unset", "--steps", "1000")
    said = read_until(process, "[Step 1 of")
    struck: set[int] = set()
    while process.poll() is None:
        for engine in engines_of(process.pid) - struck:
            os.kill(engine, signal.SIGKILL)
            struck.add(engine)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.2)
    said += process.communicate(timeout=120)[0]
    assert process.returncode == 2, said[-4000:]
    assert re.search(r"^error: .*sampler 0 died", said, re.MULTILINE), said[-4000:]
    assert "Traceback" not in said


def engines_of(pid: int) -> set[int]:
    """Return the processes below a command that hold an engine."""
    found = set()
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if child.cmdline()[:1] and child.cmdline()[0].startswith("ray::SamplerActor"):
                    found.add(child.pid)
    return found


@pytest.mark.long
def test_two_ranks_train_refilled_batches_ahead(config: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    values = (
        "algorithm.type=dapo",
        "algorithm.dynamic_sampling.refill_rounds=1",
        "held_out=unset",
        "rollout.environment.max_turns=1",
    )
    more = [part for value in values for part in ("--set", value)]
    finish(config, run, 1, "--num-processes", 2, "--steps", 3, *more)
    reader = RunReader(run)
    steps = reader.table("steps", latest=True).to_pylist()
    assert [dict(row["metrics"])["rounds"] for row in steps] == [2, 2, 2]
    groups = set(reader.table("turns")["group"].to_pylist())
    assert groups == {f"step-{step}{part}/{i}" for step in (1, 2, 3) for part in ("", "/refill-1") for i in (0, 1)}
    assert all(dict(row["metrics"])["staleness_max"] <= 1 for row in steps)
