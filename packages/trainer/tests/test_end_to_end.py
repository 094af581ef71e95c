"""Real runs of the command: launcher, ZeRO, vLLM, evaluator, records; killed, stopped and resumed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file

from warpsmith.records.reader import RunReader

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SFT = """
[run]
dir = "{run}"
steps = 6
torch_threads = 1
[policy]
path = "{policy}"
dtype = "float32"
[data]
problems = 60
levels = [1]
prompt_style = "compact"
max_tokens = 400
batch_size = 8
eval_examples = 8
eval_every = 3
[optimizer]
lr = 3e-3
warmup_steps = 1
[zero]
stage = {stage}
micro_batch_tokens = 1024
[checkpoint]
every = 3
[wandb]
mode = "{wandb}"
"""

# The entropy term gives every turn a gradient, whatever an untrained model earns.
GRPO = """
[run]
dir = "{run}"
steps = 2
torch_threads = 1
[policy]
path = "{policy}"
dtype = "float32"
[problems]
count = 8
levels = [1]
[rollout]
prompt_style = "compact"
max_turns = 2
trials = 1
[rollout.sampling]
max_tokens = 24
[rollout.engine]
dtype = "float32"
max_model_len = 512
[algorithm]
prompts_per_step = 2
samples_per_prompt = 2
entropy_coefficient = 0.01
kl_coefficient = 0.01
[optimizer]
lr = 1e-3
[zero]
stage = {stage}
micro_batch_tokens = 512
[held_out]
problems = 2
[checkpoint]
every = 1
keep = 3
[wandb]
mode = "{wandb}"
"""


@pytest.fixture(autouse=True, scope="module")
def no_rank() -> Iterator[None]:
    """A process group that another test made in this process leaves the names of a rank behind."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
            patch.delenv(name, raising=False)
        yield


def write(path: Path, text: str, **values: object) -> Path:
    path.write_text(text.format(**{"wandb": "disabled", "stage": 2, **values}))
    return path


def trainer(*arguments: object, code: int = 0) -> str:
    """Run the command to its end; return what it said."""
    ended = subprocess.run(
        [sys.executable, "-m", "warpsmith.trainer", *map(str, arguments)],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    said = ended.stdout + ended.stderr
    assert ended.returncode == code, said[-4000:]
    return said


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "final_model" / "model.safetensors")


def largest_gap(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    assert one.keys() == other.keys()
    return max((one[name] - other[name]).abs().max().item() for name in one)


@pytest.fixture(scope="module")
def sft_run(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A whole SFT run, with W&B offline: its directory and its file."""
    run = tmp_path_factory.mktemp("sft") / "whole"
    config = write(run.parent / "sft.toml", SFT, run=run, policy=tiny, wandb="offline")
    trainer("sft", config)
    return run, config


def test_sft_learns_and_writes_what_it_did(sft_run: tuple[Path, Path]) -> None:
    run, _ = sft_run
    steps = RunReader(run).table("steps").to_pylist()
    assert [row["step"] for row in steps] == [1, 2, 3, 4, 5, 6]
    assert steps[-1]["loss"] < steps[0]["loss"]
    assert "eval_loss" in dict(steps[2]["metrics"])
    assert (run / "final_model" / "tokenizer.json").is_file()
    assert list((run / "wandb").glob("offline-run-*"))
    assert [path.name for path in sorted((run / "checkpoints").iterdir())] == ["step-00000003", "step-00000006"]


def test_a_resumed_sft_run_is_the_run_that_was_not_stopped(sft_run: tuple[Path, Path], tmp_path: Path) -> None:
    whole, config = sft_run
    changes = ["--set", f"run.dir={tmp_path / 'cut'}", "--set", "wandb.mode=disabled"]
    # By the number of steps the cosine would differ, so the run is stopped by time once its first checkpoint stands.
    process = subprocess.Popen(
        [sys.executable, "-m", "warpsmith.trainer", "sft", str(config), *changes], stderr=subprocess.PIPE, text=True
    )
    _wait_for_file(tmp_path / "cut" / "checkpoints" / "step-00000003" / "state.json", process)
    for child in psutil.Process(process.pid).children(recursive=True):
        child.kill()
    process.communicate(timeout=60)
    trainer("sft", config, *changes, "--resume")
    assert largest_gap(weights(whole), weights(tmp_path / "cut")) == 0.0


def test_zero_stages_packing_and_two_ranks_learn_the_same(sft_run: tuple[Path, Path], tmp_path: Path) -> None:
    whole, config = sft_run
    values = [f"run.dir={tmp_path / 'two'}", "zero.stage=3", "zero.packing=true", "wandb.mode=disabled"]
    changes = [part for value in values for part in ("--set", value)]
    trainer("sft", config, *changes, "--num-processes", 2)
    assert largest_gap(weights(whole), weights(tmp_path / "two")) < 2e-3
    out = tmp_path / "exported"
    trainer("export", tmp_path / "two", out)
    assert largest_gap(load_file(out / "model.safetensors"), weights(tmp_path / "two")) < 1e-6


@pytest.fixture(scope="module")
def grpo_run(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """A whole GRPO run: its directory, its file and what it said."""
    run = tmp_path_factory.mktemp("grpo") / "whole"
    config = write(run.parent / "grpo.toml", GRPO, run=run, policy=tiny, wandb="offline")
    return run, config, trainer("grpo", config)


def test_grpo_writes_turns_credits_and_steps(grpo_run: tuple[Path, Path, str]) -> None:
    run, _, said = grpo_run
    reader = RunReader(run)
    turns, credits, steps = (reader.table(name).to_pylist() for name in ("turns", "credits", "steps"))
    assert not reader.torn
    train = [row for row in turns if row["role"] == "train"]
    assert len({row["trajectory"] for row in train}) == 8
    assert {(row["trajectory"], row["turn"]) for row in credits} == {
        (row["trajectory"], row["turn"]) for row in train if row["valid"]
    }
    assert [(row["step"], row["weight_version"]) for row in steps] == [(1, 1), (2, 2)]
    assert {(row["role"], row["group"].split("/")[-2], row["after_step"]) for row in turns} == {
        ("held_out", "before", 0), ("train", "step-1", 0), ("train", "step-2", 1), ("held_out", "after", 2)
    }  # fmt: skip
    latest = reader.table("credits", latest=True).to_pylist()
    assert [row["ratio_mean"] for row in latest] == pytest.approx([1.0] * len(latest), abs=1e-2)
    assert all(row["ratio_max"] >= row["ratio_mean"] and row["clipped_fraction"] == 0 for row in latest)
    assert all(row["kl_mean"] >= 0 for row in latest)
    assert {(row["staleness"], row["group_size"] > 0) for row in latest} == {(0, True)}
    metrics = dict(steps[-1]["metrics"])
    assert abs(metrics["sampler_gap"]) < 1e-3
    assert metrics["probe_gap"] < 1e-3
    assert metrics["staleness_max"] == 0
    assert {version for row in train for version in row["weight_versions"]} == {0, 1}
    assert "[Turn 1]" in said
    assert "=== Final Trajectory Summary" in said
    summary = json.loads((run / "summary.json").read_text())["held_out"]
    assert summary["before"]["trajectories"] == summary["after"]["trajectories"] == 2
    assert summary["before"]["seconds"] > 0
    low, high = summary["interval"]["solved_rate"]
    assert -1 <= low <= summary["after"]["solved_rate"] - summary["before"]["solved_rate"] <= high <= 1
    assert "Held out, gain: solved" in said


def test_a_resumed_grpo_run_is_the_run_that_was_not_stopped(grpo_run: tuple[Path, Path, str], tmp_path: Path) -> None:
    whole, config, _ = grpo_run
    changes = ["--set", f"run.dir={tmp_path / 'cut'}", "--set", "wandb.mode=disabled"]
    trainer("grpo", config, *changes, "--steps", 1)
    trainer("grpo", config, *changes, "--resume")

    def second_step(run: Path) -> list[list[int]]:
        rows = RunReader(run).table("turns").to_pylist()
        return [row["completion_ids"] for row in rows if row["group"].startswith("step-2/")]

    assert second_step(whole) == second_step(tmp_path / "cut")
    assert largest_gap(weights(whole), weights(tmp_path / "cut")) < 1e-5


def test_a_changed_configuration_is_refused(grpo_run: tuple[Path, Path, str]) -> None:
    _, config, _ = grpo_run
    said = trainer("grpo", config, "--resume", "--set", "algorithm.clip_low=0.3", "--steps", 3, code=2)
    assert "algorithm.clip_low was 0.2 and is 0.3" in " ".join(said.split())
    assert "holds a run already" in " ".join(trainer("grpo", config, code=2).split())


def test_two_ranks_under_stage_3_train_and_sync(tiny: Path, tmp_path: Path) -> None:
    config = write(tmp_path / "grpo.toml", GRPO, run=tmp_path / "run", policy=tiny, stage=3)
    changes = ["--set", "held_out.problems=0", "--set", "zero.packing=true"]
    trainer("grpo", config, "--num-processes", 2, *changes, "--steps", 1)
    assert RunReader(tmp_path / "run").table("steps").to_pylist()[-1]["weight_version"] == 1


@pytest.fixture
def endless(tiny: Path, tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    config = write(tmp_path / "grpo.toml", GRPO, run=tmp_path / "run", policy=tiny)
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "warpsmith.trainer", "grpo", str(config), "--steps", "1000"),
            *("--set", "held_out.problems=0", "--set", "checkpoint.every=0"),
        ],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def test_a_signal_finishes_the_step_and_leaves_a_checkpoint(endless: "subprocess.Popen[str]", tmp_path: Path) -> None:
    said = _read_until(endless, "[Step 1]")
    family = psutil.Process(endless.pid).children(recursive=True)
    endless.send_signal(signal.SIGINT)
    rest, _ = endless.communicate(timeout=120)
    assert endless.returncode == 0, said + rest
    assert "SIGINT: finishing this step" in rest
    assert "go on with --resume" in rest
    assert list((tmp_path / "run" / "checkpoints").glob("step-*/state.json"))
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive


def _read_until(process: "subprocess.Popen[str]", text: str) -> str:
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if text in line:
            return said
    raise AssertionError(said)


def _wait_for_file(path: Path, process: "subprocess.Popen[str]") -> None:
    """Wait until the file is there; the process writes it or ends."""
    while not path.exists():
        try:
            process.wait(0.02)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(process.communicate()[1])
