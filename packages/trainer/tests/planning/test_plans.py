"""Plans of memory: shapes, machines, what fits, what is refused, and the change that makes it fit."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from warpsmith.policy.config import LoraSettings, TinySettings
from warpsmith.policy.errors import CheckpointError
from warpsmith.policy.loading import count_parameters
from warpsmith.policy.logprobs import FUSED_LOGITS_AT_ONCE, LOGITS_AT_ONCE
from warpsmith.records.errors import UsageError
from warpsmith.trainer.config import ZeroSection, load_any, load_grpo
from warpsmith.trainer.config.parallel import ParallelSection
from warpsmith.trainer.errors import ConfigError
from warpsmith.trainer.planning import machines, training
from warpsmith.trainer.planning.build import MemoryPlan, plan
from warpsmith.trainer.planning.command import suggested
from warpsmith.trainer.planning.parts import Device, Part
from warpsmith.trainer.planning.shapes import KNOWN, read_shape, shape_of
from warpsmith.trainer.planning.sizes import GIB, gib, in_words, parse_size
from warpsmith.trainer.planning.training import Training, rank_parts, state_parts

GRPO = """
[run]
dir = "run"
[placement]
train = [0]
rollout = [1]
[policy]
path = "models/qwen3-8b"
gradient_checkpointing = true
[rollout.sampling]
max_tokens = 4096
[rollout.sampler]
device = "cuda"
max_model_len = 8192
[zero]
stage = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "grpo.toml"
    path.write_text(GRPO)
    return path


def made(file: Path, machine: str, *overrides: str) -> MemoryPlan:
    config = load_any(file, overrides)
    return plan(config, shape_of(config.policy.path), machines.named(machine))


# Shapes ----------------------------------------------------------------------------------------------------------

PUBLISHED = {
    "smollm2-135m": 134_515_008,
    "qwen2.5-coder-0.5b": 494_032_768,
    "qwen2.5-coder-1.5b": 1_543_714_304,
    "qwen2.5-coder-7b": 7_615_616_512,
    "qwen3-0.6b": 596_049_920,
    "qwen3-8b": 8_190_735_360,
    "qwen3-14b": 14_768_307_200,
    "kernelllm": 8_030_261_248,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_known_models_have_their_published_size(name: str) -> None:
    assert KNOWN[name].parameters == PUBLISHED[name]


def test_a_directory_is_read(tiny: Path) -> None:
    assert read_shape(tiny).parameters == count_parameters(tiny)
    assert shape_of(tiny) == read_shape(tiny)


def test_the_demos_model_is_the_default_one() -> None:
    demo, made = KNOWN["demo"], TinySettings()
    assert (demo.layers, demo.hidden, demo.heads, demo.kv_heads) == (
        made.layers,
        made.hidden,
        made.heads,
        made.kv_heads,
    )
    assert (demo.intermediate, demo.vocabulary, demo.head_dim) == (made.intermediate, made.vocab_size, made.head_dim)


def test_a_model_that_is_not_there_is_known_by_its_path() -> None:
    assert shape_of(Path("models/Qwen3-8B-kernelbook-sft")).name == "qwen3-8b"
    assert shape_of(Path("runs/smollm2-135m/sft/final_model")).name == "smollm2-135m"
    with pytest.raises(ConfigError, match="no model of that name is known"):
        shape_of(Path("models/other"))


def test_other_architectures_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "mamba"}')
    with pytest.raises(CheckpointError, match="the type mamba"):
        shape_of(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama", "hidden_size": 0, "num_attention_heads": 2}')
    with pytest.raises(CheckpointError, match="0 for hidden_size"):
        shape_of(tmp_path)


def test_weights_of_another_shape_are_refused(tiny: Path, tmp_path: Path) -> None:
    config = json.loads((tiny / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    (tmp_path / "model.safetensors").write_bytes((tiny / "model.safetensors").read_bytes())
    with pytest.raises(CheckpointError, match="by its config"):
        shape_of(tmp_path)


# Machines and sizes ----------------------------------------------------------------------------------------------


def test_sizes_are_read() -> None:
    assert parse_size("2GiB") == 2 * GIB
    assert parse_size("1.5 gb") == 1_500_000_000
    assert (gib(2.5 * GIB), gib(80 * GIB)) == ("2.50", "80.0")
    assert (in_words(2.5 * GIB), in_words(3 << 19)) == ("2.50 GiB", "1.5 MiB")
    with pytest.raises(UsageError, match="is not a memory size"):
        parse_size("80 bananas")


def test_machines_are_named_and_described() -> None:
    assert machines.named("8xh100-80").gpus == 8
    assert machines.named("cpu-24g").host_bytes == 24 * GIB
    assert machines.described("h200", 2, None, GIB).gpus == 2
    for wrong in ("h300", "0xh200", "cpu"):
        with pytest.raises(UsageError, match="no machine called"):
            machines.named(wrong)
    with pytest.raises(UsageError, match="without memory"):
        machines.described("cpu-24g", 1, None, None)


def test_times_that_exclude_one_another_are_not_added() -> None:
    parts = [Part("a", 5), Part("b", 3, "pass"), Part("c", 1, "pass"), Part("d", 2, "update")]
    assert Device("GPU 0", 9, parts).peak == 9
    assert Device("GPU 0", 9, parts).fits
    assert not Device("GPU 0", 8, parts).fits


# Formulas --------------------------------------------------------------------------------------------------------


def qwen(stage: int, ranks: int = 4, width: int = 2, **changes: object) -> Training:
    zero = ZeroSection.model_validate({"stage": stage, **changes})
    return Training(KNOWN["qwen3-8b"], width, zero, ranks, 4096, checkpointing=True)


def test_states_are_16_bytes_a_parameter_and_2_for_the_weights_on_one_rank() -> None:
    always = sum(part.bytes for part in state_parts(qwen(3, ranks=1)) if part.when == "always")
    assert always == 18 * KNOWN["qwen3-8b"].parameters


def test_each_stage_takes_less() -> None:
    sizes = [sum(part.bytes for part in state_parts(qwen(stage)) if part.when != "update") for stage in (1, 2, 3)]
    assert sizes[0] > sizes[1] > sizes[2]
    assert sizes[2] == 18 * KNOWN["qwen3-8b"].parameters // 4


def test_ranks_that_share_layers_have_a_part_of_the_projections_and_all_else_whole() -> None:
    shape = KNOWN["qwen3-8b"]
    run = replace(qwen(2), parallel=ParallelSection(tensor=4))
    parts = {part.name: part.bytes for part in state_parts(run)}
    assert parts["weights"] == 2 * (shape.parameters - shape.projected * 3 // 4)
    assert parts["Adam's moments"] == 4 * parts["weights"]  # No rank has the same part.
    assert 6.9e9 < shape.projected < shape.parameters - 2 * shape.embedding
    assert run.trained == shape.parameters
    both = [training.activations(replace(each, checkpointing=False)) for each in (run, qwen(2))]
    assert both[0] < 0.6 * both[1]


def test_ranks_that_share_rows_have_a_part_of_a_long_row() -> None:
    run = replace(qwen(2, micro_batch_tokens=1024), parallel=ParallelSection(sequence=4))
    assert run.tokens == 1024
    assert replace(run, longest=16_001).tokens == 4001
    assert state_parts(run) == state_parts(qwen(2))


def test_what_cannot_be_shared_does_not_fit(file: Path) -> None:
    found = made(file, "8xh200", "parallel.tensor=5", "zero.stage=2", "placement.train=[0,1,2]")
    assert any("5 ranks cannot share evenly" in misfit for misfit in found.misfits)
    assert any("needs whole ones" in misfit for misfit in found.misfits)


def test_offload_leaves_the_weights_alone() -> None:
    parts = {part.name: part.bytes for part in state_parts(qwen(2, offload_optimizer=True))}
    assert {name for name, size in parts.items() if size} == {"weights"}


def test_adapters_alone_have_states() -> None:
    lora = LoraSettings(rank=16)
    run = Training(KNOWN["qwen3-8b"], 2, ZeroSection(), 1, 4096, checkpointing=True, lora=lora, reference=True)
    assert run.trained == 43_646_976
    parts = {part.name: part.bytes for part in rank_parts(run)}
    assert parts["Adam's moments"] == 8 * run.trained
    assert "reference policy" not in parts
    assert "output layer's gradient" not in parts


def test_the_chunk_of_logits_is_the_policys() -> None:
    assert training.LOGITS_AT_ONCE == LOGITS_AT_ONCE
    assert training.FUSED_LOGITS_AT_ONCE == FUSED_LOGITS_AT_ONCE


def test_a_gpu_holds_one_chunk_of_logits_in_the_policys_dtype_and_a_host_seven_in_fp32(file: Path) -> None:
    on_gpu, on_host = made(file, "8xh200").gpus[0], made(file, "cpu-64g", "placement.train=[]").host
    name = "logits of a chunk"
    assert [part.bytes for part in on_gpu.parts if part.name == name] == [2 * FUSED_LOGITS_AT_ONCE]
    assert [part.bytes for part in on_host.parts if part.name == name] == [7 * 4 * LOGITS_AT_ONCE]
    short = Training(KNOWN["qwen3-8b"], 4, ZeroSection(micro_batch_tokens=100), 1, 100, checkpointing=True)
    assert training.logits(short) == 4 * 100 * short.shape.vocabulary


# What fits -------------------------------------------------------------------------------------------------------


def test_what_fits_is_said_to_fit(file: Path) -> None:
    found = made(file, "2xh200", "zero.offload_optimizer=true", 'optimizer.implementation="cpu"')
    assert found.fits, found.misfits
    assert found.facts["kv_bytes_per_token"] == 2 * 36 * 8 * 128 * 2
    # vLLM takes its whole share.
    assert found.gpus[1].peak == int(0.85 * found.gpus[1].bytes)


def test_what_cannot_fit_is_refused_with_a_change_that_fits(file: Path) -> None:
    found = made(file, "2xh100-80")
    assert not found.fits
    assert "GPU would need" in found.misfits[0]
    change = suggested(file, [], load_grpo(file), found, None)
    assert change is not None
    assert made(file, "2xh100-80", *change).fits


def test_a_free_gpu_is_taken_before_the_host(file: Path) -> None:
    found = made(file, "4xh100-80")
    change = suggested(file, [], load_grpo(file), found, None)
    assert change is not None
    assert any(line.startswith("placement.train = [0, 2") for line in change)


def test_too_small_a_host_has_no_change(file: Path) -> None:
    config = load_grpo(file)
    small = machines.described("2xh100-80", None, None, 8 * GIB)
    assert suggested(file, [], config, plan(config, KNOWN["qwen3-8b"], small), None) is None


def test_gpus_that_are_not_there(file: Path) -> None:
    (first, *_) = made(file, "h200").misfits
    assert first == "GPU 1 is to sample but does not exist: h200 has 1, 0 to 0."
    assert "has none" in made(file, "cpu-24g").misfits[0]


def test_a_cache_that_holds_no_sequence(file: Path) -> None:
    found = made(file, "2xh100-80", "rollout.sampler.gpu_memory_utilization=0.2")
    assert any("vLLM would not start" in misfit for misfit in found.misfits)


def test_heads_that_cannot_be_split(file: Path) -> None:
    found = made(file, "4xh200", "placement.rollout=[1,2,3]", "rollout.sampler.tensor_parallel_size=3")
    assert any("32 attention heads cannot be split over 3" in misfit for misfit in found.misfits)


def test_two_gpus_of_one_sampler_share_weights_and_cache(file: Path) -> None:
    alone = made(file, "4xh200")
    shared = made(file, "4xh200", "placement.rollout=[1,2]", "rollout.sampler.tensor_parallel_size=2")
    weights = [part.bytes for part in alone.gpus[1].parts if part.name == "vLLM: weights"]
    assert [part.bytes for part in shared.gpus[2].parts if part.name == "vLLM: weights"] == [weights[0] // 2]
    assert shared.facts["kv_tokens_per_sampler"] > 2 * alone.facts["kv_tokens_per_sampler"]


def test_timing_where_the_file_names_no_gpus(file: Path) -> None:
    nowhere = ("placement.train=[]", "placement.rollout=[]", 'evaluator.device="cuda"')
    found = made(file, "2xh200", *nowhere, "algorithm.max_staleness=1")
    assert any("times candidates" in misfit for misfit in found.misfits)
    # Without staleness that GPU samples, times and trains in turns.
    assert not any("times candidates" in misfit for misfit in made(file, "2xh200", *nowhere).misfits)


# The command -----------------------------------------------------------------------------------------------------

Command = Callable[..., int]


def test_the_command_says_what_it_found(file: Path, command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("plan", str(file), "--machine", "2xh100-80") == 2
    printed = capsys.readouterr().out
    assert "does not fit" in printed
    assert "zero." in printed
    assert command("plan", str(file), "--machine", "2xh100-80", "--model", "smollm2-135m", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fits"]
    assert found["devices"][0]["peak"] < 30 * GIB
    assert command("plan", str(file), "--gpus", "2", "--gpu-memory", "141GB", "--machine", "cpu-64g") == 2
    assert command("plan", str(file), "--machine", "toaster") == 2
    assert "no machine called `toaster`" in capsys.readouterr().err


def test_ranks_that_the_run_would_refuse_are_refused(
    file: Path, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    placed = ("plan", str(file), "--machine", "4xh200", "--set", "placement.train=[0,1]", "--num-processes")
    assert command(*placed, "3") == 2
    assert "--num-processes is 3" in capsys.readouterr().err
    assert command(*placed, "2") in (0, 2)
    assert "--num-processes" not in capsys.readouterr().err


def test_this_machine_is_planned_for(tiny: Path, tmp_path: Path, command: Command) -> None:
    path = tmp_path / "sft.toml"
    path.write_text(f'[run]\ndir = "run"\n[policy]\npath = "{tiny}"\ndtype = "float32"\n[data.source]\nproblems = 10\n')
    assert command("plan", str(path)) == 0
