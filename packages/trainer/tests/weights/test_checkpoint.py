"""Checkpoint bookkeeping: what counts as one, what may change, what is random."""

import io
import json
import random
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch

from warpsmith.trainer.config import SftConfig
from warpsmith.trainer.config.sections import OptimizerSection, ZeroSection
from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.distributed.zero_engine import ZeroEngine
from warpsmith.trainer.errors import CheckpointError, CheckpointWriteError
from warpsmith.trainer.weights import checkpoint
from warpsmith.trainer.weights.consolidate import trained_weights

CONFIG = {
    "run": {"dir": "a", "steps": 10, "seed": 0},
    "algorithm": {"type": "grpo", "clip": {"type": "ppo", "low": 0.2}},
    "optimizer": {"schedule": {"type": "constant"}},
    "wandb": {"mode": "offline"},
    "rollout": {"generate_timeout_s": 600.0},
    "policy": {"kernels": "torch"},
}


def changed(table: str, key: str, value: object) -> dict[str, dict[str, object]]:
    return {**CONFIG, table: {**CONFIG[table], key: value}}


def saved(content: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def make(run: Path, step: int, *, whole: bool = True, score: float | None = None) -> Path:
    path = checkpoint.directory_of(run) / f"step-{step:08d}"
    path.mkdir(parents=True)
    if whole:
        state = {"progress": {"step": step}, "world": 1, "config": CONFIG, "score": score}
        (path / checkpoint.STATE).write_text(json.dumps(state))
    return path


def test_the_latest_is_the_newest_complete_one(tmp_path: Path) -> None:
    make(tmp_path, 2)
    make(tmp_path, 100)
    make(tmp_path, 900, whole=False)
    (checkpoint.directory_of(tmp_path) / ".step-00000950.partial").mkdir()
    assert checkpoint.latest(tmp_path).name == "step-00000100"
    assert checkpoint.read_state(checkpoint.latest(tmp_path))["progress"] == {"step": 100}


@pytest.mark.parametrize(("keep", "best", "goes"), [(2, 0, [1, 2, 3]), (2, 1, [1, 3]), (1, 2, [1, 3]), (5, 9, [])])
def test_the_newest_and_the_best_stay(tmp_path: Path, keep: int, best: int, goes: list[int]) -> None:
    paths = [make(tmp_path, step, score=score) for step, score in enumerate([0.1, 0.9, None, 0.4, 0.2], start=1)]
    assert checkpoint.superfluous(tmp_path, keep, best) == [paths[step - 1] for step in goes]


def test_a_run_can_go_on_from_its_start_until_it_has_a_checkpoint(tmp_path: Path) -> None:
    ranks = Ranks(0, 1, torch.device("cpu"), None)
    checkpoint.mark_start(tmp_path, ranks, CONFIG)
    start = checkpoint.latest(tmp_path)
    assert start.name == checkpoint.START
    # Nothing is loaded: the weights are the policy's.
    assert checkpoint.load(start, None, ranks, CONFIG) == checkpoint.Progress()  # type: ignore[arg-type]
    assert checkpoint.superfluous(tmp_path, 2, 0) == []
    make(tmp_path, 4)
    assert checkpoint.superfluous(tmp_path, 2, 0) == [start]


def test_nothing_to_resume_is_said(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="has no checkpoint"):
        checkpoint.latest(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"progress": {"stepp": 1}, "world": 1, "config": {}}', '{"world": 1}']
)
def test_a_damaged_state_is_refused(tmp_path: Path, text: str) -> None:
    (make(tmp_path, 1) / checkpoint.STATE).write_text(text)
    with pytest.raises(CheckpointError, match="damaged"):
        checkpoint.read_state(checkpoint.directory_of(tmp_path) / "step-00000001")


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [("run", "dir", "b"), ("run", "steps", 20), ("wandb", "mode", "disabled"), ("rollout", "generate_timeout_s", 9.0)],
)
def test_what_no_step_computes_with_may_change(table: str, key: str, value: object) -> None:
    checkpoint.refuse_changes(Path("c"), CONFIG, changed(table, key, value))


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [
        ("run", "seed", 1),
        ("algorithm", "clip", {"type": "ppo", "low": 0.3}),
        ("algorithm", "new", 1),
        ("policy", "kernels", "liger"),
    ],
)
def test_what_a_step_computes_with_may_not(table: str, key: str, value: object) -> None:
    with pytest.raises(CheckpointError, match=rf"{table}\.{key}(\.low)? was .* and is"):
        checkpoint.refuse_changes(Path("c"), CONFIG, changed(table, key, value))


def test_a_key_of_a_table_and_the_type_of_a_table_are_compared() -> None:
    old, now = (changed("algorithm", "clip", {"type": "ppo", "dual": dual}) for dual in (3.0, None))
    with pytest.raises(CheckpointError, match=r"algorithm\.clip\.dual was 3\.0 and is None"):
        checkpoint.refuse_changes(Path("c"), old, now)
    now = changed("algorithm", "clip", {"type": "none"})
    with pytest.raises(CheckpointError, match=r"algorithm\.clip\.type was 'ppo' and is 'none'"):
        checkpoint.refuse_changes(Path("c"), old, now)


def test_the_kernel_language_may_not_change_and_is_triton_in_older_runs() -> None:
    path, cuda = Path("c"), {**CONFIG, "evaluator": {"language": "cuda_cpp"}}
    checkpoint.refuse_changes(path, CONFIG, {**CONFIG, "evaluator": {"language": "triton", "slots": 3}})
    checkpoint.refuse_changes(path, cuda, cuda)
    with pytest.raises(CheckpointError, match=r"evaluator\.language was 'triton' and is 'cuda_cpp'"):
        checkpoint.refuse_changes(path, CONFIG, cuda)


@pytest.mark.parametrize(
    ("key", "value", "other"),
    [
        ("rollout.sampler.lora_agents", [], ["generator"]),
        ("rollout.sampler.compile_model", True, False),
        ("data.source.language", "triton", "cuda_cpp"),
        ("data.source.timed", True, False),
        ("data.source.repair_share", 0.0, 0.2),
    ],
)
def test_a_run_that_is_older_than_a_key_goes_on_as_it_was(key: str, value: object, other: object) -> None:
    def now(given: object) -> dict[str, object]:
        table: dict[str, object] = {key.rpartition(".")[2]: given}
        for name in reversed(key.split(".")[:-1]):
            table = {name: table}
        return {**CONFIG, **table}

    checkpoint.refuse_changes(Path("c"), CONFIG, now(value))
    with pytest.raises(CheckpointError, match=f"{key} was"):
        checkpoint.refuse_changes(Path("c"), CONFIG, now(other))


def test_a_run_that_is_older_than_the_type_of_a_reward_goes_on_under_a_preset_alone() -> None:
    path = Path("step-00000005")
    old = {**CONFIG, "rollout": {"reward": {"preset": "kevin", "compiled": 0.0}}}
    same = {**CONFIG, "rollout": {"reward": {"type": "preset", "preset": "kevin", "compiled": 0.0}}}
    checkpoint.refuse_changes(path, old, same)
    other = {**CONFIG, "rollout": {"reward": {"type": "function", "path": "mine.py:score"}}}
    with pytest.raises(CheckpointError, match=r"rollout\.reward\.type was 'preset' and is 'function'"):
        checkpoint.refuse_changes(path, old, other)


def test_a_run_keeps_the_name_of_its_records_wherever_its_directory_goes(tmp_path: Path) -> None:
    started, moved = tmp_path / "started", tmp_path / "moved"
    config = SftConfig(run={"dir": started}, policy={"path": "p"})
    checkpoint.mark_start(started, Ranks(0, 1, torch.device("cpu"), None), config.model_dump(mode="json"))
    started.rename(moved)
    config = SftConfig(run={"dir": moved}, policy={"path": "p"})
    resumed = checkpoint.under_recorded_name(config)
    assert (config.run.title, resumed.run.title, resumed.run.dir) == ("moved", "started", moved)
    old = checkpoint.read_state(checkpoint.latest(moved))["config"]
    for same in (config, resumed):
        checkpoint.refuse_changes(Path("c"), old, same.model_dump(mode="json"))
    other = SftConfig(run={"dir": moved, "name": "moved"}, policy={"path": "p"})
    with pytest.raises(CheckpointError, match=r"run\.name was 'started' and is 'moved'"):
        checkpoint.refuse_changes(Path("c"), old, other.model_dump(mode="json"))


@pytest.mark.parametrize(("kernels", "goes_on"), [("torch", True), ("liger", False)])
def test_a_checkpoint_older_than_a_key_was_trained_as_without_it(kernels: str, goes_on: bool) -> None:
    now = changed("policy", "kernels", kernels)
    old = {**now, "policy": {key: value for key, value in now["policy"].items() if key != "kernels"}}
    with nullcontext() if goes_on else pytest.raises(CheckpointError, match=r"policy\.kernels was 'torch' and is"):
        checkpoint.refuse_changes(Path("c"), old, now)


def test_steps_matter_where_the_learning_rate_follows_them() -> None:
    cosine = changed("optimizer", "schedule", {"type": "cosine"})
    longer = {**cosine, "run": {**CONFIG["run"], "steps": 20}}
    with pytest.raises(CheckpointError, match=r"run\.steps was 10 and is 20"):
        checkpoint.refuse_changes(Path("c"), cosine, longer)


def test_a_number_of_updates_that_was_not_given_is_not_the_same_as_300() -> None:
    """Two epochs over 16,000 examples are 2,000 updates; with 300 the learning rate would fall far sooner."""
    alone, bounded, plain, said = (
        SftConfig(run=run, policy={"path": "p"})
        for run in (
            {"dir": "r", "epochs": 2}, {"dir": "r", "epochs": 2, "steps": 300}, {"dir": "r"}, {"dir": "r", "steps": 300}
        )
    )  # fmt: skip
    assert [config.run.updates(16_000, 16) for config in (alone, bounded, plain, said)] == [2000, 300, 300, 300]
    dumps = [config.model_dump(mode="json") for config in (alone, bounded, plain, said)]
    with pytest.raises(CheckpointError, match=r"run\.steps was None and is 300"):
        checkpoint.refuse_changes(Path("c"), dumps[0], dumps[1])
    checkpoint.refuse_changes(Path("c"), dumps[2], dumps[3])


def test_a_checkpoint_that_cannot_be_written_says_so_and_what_a_kill_left_is_swept(
    tmp_path: Path, alone: Ranks
) -> None:
    engine = ZeroEngine(
        torch.nn.Linear(2, 2), zero=ZeroSection(), optimizer=OptimizerSection(), ranks=alone, dtype="float32"
    )
    run = tmp_path / "run"

    def save(step: int) -> Path:
        return checkpoint.save(run, engine, alone, checkpoint.Progress(step=step), config=CONFIG, keep=1)

    run.mkdir()
    checkpoint.directory_of(run).touch()
    with pytest.raises(CheckpointWriteError, match=r"step-00000001 could not be written, with .*--resume"):
        save(1)
    checkpoint.directory_of(run).unlink()
    (checkpoint.directory_of(run) / ".step-00000009.partial" / "zero").mkdir(parents=True)
    assert [save(1), save(2)][-1] == checkpoint.latest(run)
    checkpoint.sweep(run)
    assert [path.name for path in checkpoint.directory_of(run).iterdir()] == ["step-00000002"]


def test_random_generators_go_on_where_they_were(tmp_path: Path) -> None:
    def draw() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(1))

    checkpoint.save_random_state(tmp_path / "random.pt")
    first = draw()
    assert draw() != first
    checkpoint.load_random_state(tmp_path / "random.pt")
    assert draw() == first


DAMAGED_FILES = {
    "zeros": b"\0" * 4096,
    "text": b"hello world" * 50,
    "empty": b"",
    "other_keys": saved({"x": 1}),
    "other_kind": saved([1, 2]),
    "shortened": saved({"torch": torch.get_rng_state()})[:2000],
}


@pytest.mark.parametrize("name", DAMAGED_FILES)
def test_a_damaged_file_is_reported_as_one(tmp_path: Path, alone: Ranks, name: str) -> None:
    random_state = tmp_path / "random.pt"
    random_state.write_bytes(DAMAGED_FILES[name])
    with pytest.raises(CheckpointError, match=r"random\.pt cannot be read: .*older checkpoint") as caught:
        checkpoint.load_random_state(random_state)
    assert len(str(caught.value).splitlines()) <= 2
    engine = ZeroEngine(
        torch.nn.Linear(2, 2), zero=ZeroSection(), optimizer=OptimizerSection(), ranks=alone, dtype="float32"
    )
    engine.save(tmp_path)
    (tmp_path / "zero" / "mp_rank_00_model_states.pt").write_bytes(DAMAGED_FILES[name])
    with pytest.raises(CheckpointError, match="cannot be loaded"):
        engine.load(tmp_path)
    with pytest.raises(CheckpointError, match="cannot be read"):
        trained_weights(tmp_path, {"config": {"policy": {"lora": None}, "zero": {"stage": 2}}})


def test_trials_and_time_limits_bind_a_resumed_run_and_the_rest_of_the_evaluator_does_not(tmp_path: Path) -> None:
    old = {**CONFIG, "evaluator": {"trials": 3, "timeout_s": 30.0, "slots": 2}}
    checkpoint.refuse_changes(tmp_path, old, {**old, "evaluator": {"trials": 3, "timeout_s": 30.0, "slots": 4}})
    for key, value in (("trials", 5), ("timeout_s", 60.0)):
        with pytest.raises(CheckpointError, match=rf"evaluator\.{key} was"):
            checkpoint.refuse_changes(tmp_path, old, {**old, "evaluator": {**old["evaluator"], key: value}})
