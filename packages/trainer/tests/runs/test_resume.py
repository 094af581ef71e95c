"""A GRPO run interrupted at a random moment and resumed equals the uninterrupted run, bit for bit.

Every run resumes a copy that was made while the run stood still; long runs kill another. The moment is drawn each time
and printed; WARPSMITH_KILL_SEED repeats one, WARPSMITH_KILLS asks for more kills.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch
from safetensors.torch import load_file

from warpsmith.records.reader import RunReader
from warpsmith.trainer.weights import checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

KILLS = int(os.environ.get("WARPSMITH_KILLS", "1"))
STEPS = 4
TURNS_A_STEP = 8
HELD_OUT_TURNS = 4
"""At most; fewer where an episode ends early."""

COMPARED = {
    "turns": ["trajectory", "turn", "prompt_ids", "completion_ids", "weight_versions", "reward", "return", "valid"],
    "credits": ["trajectory", "turn", "step", "advantage"],
    "steps": ["step", "weight_version", "loss"],
}


def command(config: Path, run: Path, *more: str) -> list[str]:
    changes = ("--set", f"run.dir={run}", "--set", "wandb.mode=disabled")
    return [sys.executable, "-m", "warpsmith.trainer", "grpo", str(config), *changes, *more]


def finish(config: Path, run: Path, *more: str) -> str:
    ended = subprocess.run(command(config, run, *more), capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[-4000:]
    return ended.stdout + ended.stderr


@pytest.fixture(scope="module", params=["weights", "adapters"])
def whole(
    request: pytest.FixtureRequest, whole_run: tuple[Path, Path, str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """A run that nobody kills, and its file."""
    run, config, _ = whole_run
    assert f"steps = {STEPS}" in config.read_text()
    if request.param == "weights":
        return run, config
    adapted = tmp_path_factory.mktemp("resume") / "whole"
    file = adapted.parent / "grpo.toml"
    file.write_text(config.read_text() + "[policy.lora]\nrank = 4\n")
    finish(file, adapted)
    return adapted, file


def kill_after_turns(config: Path, run: Path, turns: int) -> bool:
    """Start a run and kill all of it once it has shown so many turns; return whether it was killed in time."""
    process = subprocess.Popen(
        command(config, run), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        turns -= line.startswith("[Turn")
        if turns <= 0:
            break
    family = [process, *psutil.Process(process.pid).children(recursive=True)] if process.poll() is None else []
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    return bool(family)


def tensors(tree: object, found: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return every tensor of a checkpoint's file, in its own order."""
    if isinstance(tree, torch.Tensor):
        found.append(tree)
    elif isinstance(tree, dict):
        for value in tree.values():
            tensors(value, found)
    elif isinstance(tree, (list, tuple)):
        for value in tree:
            tensors(value, found)
    return found


def last_state(run: Path) -> tuple[dict[str, object], list[torch.Tensor]]:
    """Return the newest checkpoint: its progress but for the seconds, and all its tensors."""
    newest = checkpoint.latest(run)
    progress = dict(checkpoint.read_state(newest)["progress"]) | {"seconds": 0}
    files = sorted(path for path in newest.rglob("*.pt"))
    assert len(files) >= 3, "model, optimizer and random generators"
    return progress, [t for path in files for t in tensors(torch.load(path, weights_only=False), [])]


def rows(run: Path, name: str, columns: list[str]) -> pa.Table:
    table = RunReader(run).table(name, latest=True)
    if name == "turns":
        table = table.filter(pc.equal(table["role"], "train"))
    keys = [(key, "ascending") for key in ("trajectory", "turn", "step") if key in table.column_names]
    return table.sort_by(keys).select(columns)


def test_what_a_run_has_written_at_a_random_moment_is_resumed_to_the_same_end(
    whole_run: tuple[Path, Path, str], kill_seed: int
) -> None:
    print(f"WARPSMITH_KILL_SEED={kill_seed}")
    run, config, _ = whole_run
    cut = run.parent / "cut"
    done = checkpoint.Progress(**checkpoint.read_state(checkpoint.latest(cut))["progress"]).step
    said = finish(config, cut, "--resume")
    assert (f" for {STEPS - done} steps, at " in said) if done else ("\nTime: an estimate follows" in said)
    check_same(run, cut, said)


@pytest.mark.long
@pytest.mark.parametrize("number", range(KILLS))
def test_a_run_killed_at_a_random_moment_ends_as_one_that_was_not(
    whole: tuple[Path, Path], tmp_path: Path, number: int, kill_seed: int
) -> None:
    seed = kill_seed + number
    moment = random.Random(seed).randint(1, HELD_OUT_TURNS + TURNS_A_STEP * (STEPS - 1))
    print(f"WARPSMITH_KILL_SEED={seed}: killed after {moment} turns")
    run, config = whole
    cut = tmp_path / "cut"
    assert kill_after_turns(config, cut, moment)
    check_same(run, cut, finish(config, cut, "--resume"))


def check_same(run: Path, cut: Path, said: str) -> None:
    """Compare weights, state and records of a run with those of one that was cut off and resumed."""
    mine, other = load_file(run / "final_model/model.safetensors"), load_file(cut / "final_model/model.safetensors")
    assert all(torch.equal(mine[name], other[name]) for name in mine), said[-2000:]
    (progress, state), (resumed, restored) = last_state(run), last_state(cut)
    assert progress == resumed
    assert len(state) == len(restored)
    assert all(torch.equal(one, two) for one, two in zip(state, restored, strict=True))
    for name, columns in COMPARED.items():
        assert rows(run, name, columns).equals(rows(cut, name, columns)), name
    assert sorted(path.name for path in checkpoint.directory_of(cut).iterdir()) == ["step-00000004"]
