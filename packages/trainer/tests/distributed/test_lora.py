"""Adapters under ZeRO: what is trained, kept, sent and exported, and the reference without a second model."""

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from adapter_training import IDS, LORA, Training, elements, plain_logprobs, rows
from safetensors.torch import load_file

from warpsmith.policy import adapters, loading
from warpsmith.policy.config import DTypeName, LoraSettings, PolicyConfig
from warpsmith.policy.loading import load_policy
from warpsmith.records.errors import UsageError
from warpsmith.trainer.distributed.gathered_weights import whole_numel
from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.distributed.reference_policy import FrozenModel, PolicyWithoutAdapters
from warpsmith.trainer.errors import CheckpointError
from warpsmith.trainer.weights import checkpoint
from warpsmith.trainer.weights.consolidate import consolidate
from warpsmith.trainer.weights.export import export
from warpsmith.trainer.weights.sync import payload_of

STAGES = (*(pytest.param(stage, marks=pytest.mark.long) for stage in (0, 1)), 2, 3)
"""The default, and the one that spreads the weights too: the others spread less of the same."""
needs_qlora = pytest.mark.skipif(
    find_spec("bitsandbytes") is None or find_spec("accelerate") is None, reason="needs the extra qlora of the policy"
)


@pytest.fixture(params=STAGES)
def training(request: pytest.FixtureRequest, tiny: Path, alone: Ranks) -> Iterator[Training]:
    yield Training(tiny, alone, request.param).train()


def test_adapters_alone_are_trained_and_kept_and_a_resume_goes_on_bit_for_bit(
    training: Training, tiny: Path, tmp_path: Path
) -> None:
    path = training.save(tmp_path)
    factors = sum(value.numel() for value in training.factors().values())
    kept = [elements(torch.load(file, weights_only=False)) for file in (path / "zero").iterdir()]
    # The weight, in fp32 once more under some stages, two moments, and room to make shards even.
    assert 3 * factors <= sum(kept) <= 4 * factors + 1_000 < sum(map(whole_numel, training.policy.model.parameters()))
    resumed = Training(tiny, training.ranks, training.zero.stage)
    resumed.engine.load(path)
    assert resumed.logprobs().equal(training.logprobs())
    one, two = training.train().factors(), resumed.train().factors()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert any(value.abs().max() > 0 for name, value in one.items() if "lora_B" in name)


def test_the_base_is_the_reference_and_no_second_model(training: Training, tiny: Path) -> None:
    before = training.logprobs()
    parameters = {id(parameter) for parameter in training.engine.module.parameters()}
    mine = PolicyWithoutAdapters(training.engine).logprobs(rows(), 1.0)
    other = FrozenModel(
        load_policy(tiny).model, zero=training.zero, ranks=training.ranks, dtype="float32"
    ).logprobs(rows(), 1.0)  # fmt: skip
    torch.testing.assert_close(mine, other, atol=1e-5, rtol=0)
    assert {id(parameter) for parameter in training.engine.module.parameters()} == parameters
    assert (before - mine[0]).abs().max() > 1e-2
    assert training.logprobs().equal(before), "the adapters are on again"


def test_a_reference_pass_changes_no_gradient(tiny: Path, alone: Ranks) -> None:
    """Two steps with and without it, from the same start."""
    plain, asked = (Training(tiny, alone, 2).train(1) for _ in range(2))
    for training in (plain, asked):
        training.engine.train()
        if training is asked:
            PolicyWithoutAdapters(asked.engine).logprobs(rows(), 1.0)
        training.train(1)
    one, two = plain.factors(), asked.factors()
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_merged_weights_are_the_adapted_model_and_the_trainers_stay(training: Training, tiny: Path) -> None:
    before = training.logprobs()
    weights = dict(training.engine.weights(1 << 12))
    merged = load_policy(tiny)
    merged.model.load_state_dict(weights, strict=False)
    torch.testing.assert_close(plain_logprobs(merged), before, atol=1e-5, rtol=1e-4)
    assert set(weights) == set(load_file(tiny / "model.safetensors"))
    assert training.logprobs().equal(before)


def test_what_is_sent_is_the_adapter_or_whole_weights(tiny: Path, alone: Ranks) -> None:
    training = Training(tiny, alone, 2)
    alone_, whole = (payload_of(training.engine, alone, 3, 1 << 20, adapter=adapter) for adapter in (True, False))
    assert alone_ is not None
    assert whole is not None
    assert alone_.adapter is not None
    assert (alone_.adapter.rank, alone_.adapter.alpha, len(alone_.adapter.layers)) == (4, 8.0, 14)
    assert whole.adapter is None
    assert alone_.data.size < whole.data.size
    shapes = {name: tuple(value.shape) for name, value in load_file(tiny / "model.safetensors").items()}
    alone_.check(shapes)
    whole.check(shapes)


@pytest.mark.parametrize("stage", STAGES[1:])
def test_in_bfloat16_factors_are_kept_in_fp32_and_sent_and_exported_in_bfloat16(
    tiny: Path, alone: Ranks, tmp_path: Path, stage: int
) -> None:
    training = Training(tiny, alone, stage, dtype="bfloat16").train()
    payload = payload_of(training.engine, alone, 1, 1 << 20, adapter=True)
    assert payload is not None
    assert {entry.dtype for entry in payload.manifest} == {"bfloat16"}
    path = training.save(tmp_path / "run")
    resumed = Training(tiny, alone, stage, dtype="bfloat16")
    resumed.engine.load(path)
    one, two = training.train().factors(), resumed.train().factors()
    assert all(torch.equal(one[name], two[name]) for name in one)
    exported = consolidate(path, tmp_path / "merged")
    stored = load_file(exported / "model.safetensors")
    assert {value.dtype for value in stored.values()} == {torch.bfloat16}
    assert json.loads((exported / "config.json").read_text())["dtype"] == "bfloat16"


@needs_qlora
@pytest.mark.parametrize("stage", STAGES[1:3])
def test_adapters_on_four_bit_weights_are_kept_alone_and_a_resume_goes_on_bit_for_bit(
    tiny: Path, alone: Ranks, tmp_path: Path, stage: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # bitsandbytes computes on a CPU as well, too slowly for a run.
    monkeypatch.setattr(loading, "check_quantization", lambda: None)
    quantized = LORA.model_copy(update={"bits": 4})
    training = Training(tiny, alone, stage, quantized, "bfloat16").train()
    kinds = {type(parameter).__name__ for parameter in training.policy.model.parameters()}
    assert "Params4bit" in kinds
    path = training.save(tmp_path)
    factors = sum(value.numel() for value in training.factors().values())
    kept = [elements(torch.load(file, weights_only=False)) for file in (path / "zero").iterdir()]
    assert sum(kept) <= 5 * factors + 1_000 < sum(map(whole_numel, training.policy.model.parameters()))
    resumed = Training(tiny, alone, stage, quantized, "bfloat16")
    resumed.engine.load(path)
    assert resumed.logprobs().equal(training.logprobs())
    one, two = training.train().factors(), resumed.train().factors()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert any(value.abs().max() > 0 for name, value in one.items() if "lora_B" in name)


def test_exports_of_a_run_and_of_its_checkpoint_open_and_are_the_same(
    training: Training, tiny: Path, tmp_path: Path
) -> None:
    from peft import PeftModel

    expected = training.logprobs()
    path = training.save(tmp_path / "run")
    final = export(training.policy, training.engine, training.ranks, tmp_path / "run/final_model", 1 << 20)
    merged = consolidate(path, tmp_path / "merged")
    adapter = consolidate(tmp_path / "run", tmp_path / "adapter", form="adapter")
    assert load_file(merged / "model.safetensors").keys() == load_file(tiny / "model.safetensors").keys()
    for directory in (final, merged):
        torch.testing.assert_close(plain_logprobs(load_policy(directory)), expected, atol=1e-5, rtol=1e-4)
    for directory in (tmp_path / "run/final_adapter", adapter):
        opened = load_policy(tiny)
        PeftModel.from_pretrained(opened.model, str(directory))
        torch.testing.assert_close(plain_logprobs(opened), expected, atol=1e-5, rtol=1e-4)
        with pytest.raises(adapters.AlreadyMergedError):
            adapters.merge_adapter(merged, directory, tmp_path / "twice")


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_exports_of_whole_weights_give_the_logprobs_of_what_was_trained(
    tiny: Path, alone: Ranks, tmp_path: Path, stage: int, dtype: DTypeName
) -> None:
    training = Training(tiny, alone, stage, lora=None, dtype=dtype).train()
    expected = training.logprobs()
    assert (expected - plain_logprobs(load_policy(tiny, dtype=dtype))).abs().max() > 1e-2
    path = training.save(tmp_path / "run")
    final = export(training.policy, training.engine, training.ranks, tmp_path / "run/final_model", 1 << 20)
    kept = consolidate(path, tmp_path / "kept")
    one, two = (load_file(directory / "model.safetensors") for directory in (final, kept))
    assert one.keys() == two.keys() == load_file(tiny / "model.safetensors").keys()
    for directory in (final, kept):
        torch.testing.assert_close(plain_logprobs(load_policy(directory, dtype=dtype)), expected, atol=1e-5, rtol=1e-4)


def test_the_best_checkpoint_is_exported_where_it_is_asked_for(tiny: Path, alone: Ranks, tmp_path: Path) -> None:
    training = Training(tiny, alone, 2)
    for step, score in ((2, 0.5), (4, 0.9), (6, 0.1)):
        training.train().save(tmp_path / "run", step, score)
        if step == 4:
            expected = training.logprobs()
    best = consolidate(tmp_path / "run", tmp_path / "best", best=True)
    torch.testing.assert_close(plain_logprobs(load_policy(best)), expected, atol=1e-5, rtol=1e-4)
    with pytest.raises(UsageError, match="one checkpoint"):
        consolidate(checkpoint.latest(tmp_path / "run"), tmp_path / "x", best=True)
    with pytest.raises(CheckpointError, match="with a score"):
        checkpoint.best(tmp_path)


def test_other_weights_under_the_adapters_are_refused(tiny: Path, alone: Ranks, tmp_path: Path) -> None:
    base = load_policy(tiny).save(tmp_path / "base")
    path = Training(base, alone, 2).train(1).save(tmp_path / "run")
    state = checkpoint.read_state(path)
    config = PolicyConfig.model_validate(state["config"]["policy"])
    checkpoint.check_base(path, state, config)
    # As if the model that the run exported had been put in its base's place.
    consolidate(path, tmp_path / "merged").rename(tmp_path / "moved")
    (tmp_path / "moved/model.safetensors").replace(base / "model.safetensors")
    with pytest.raises(CheckpointError, match="not trained on the current weights"):
        checkpoint.check_base(path, state, config)
    with pytest.raises(CheckpointError, match="not trained on the current weights"):
        consolidate(path, tmp_path / "again")


def test_a_checkpoint_of_other_adapters_is_refused(tiny: Path, alone: Ranks, tmp_path: Path) -> None:
    path = Training(tiny, alone, 2).save(tmp_path)
    other = Training(tiny, alone, 2, LoraSettings(rank=4, target_modules=("q_proj",)))
    with pytest.raises(CheckpointError, match="cannot be loaded"):
        other.engine.load(path)


def test_a_run_without_adapters_has_none_to_export(tiny: Path, alone: Ranks, tmp_path: Path) -> None:
    path = Training(tiny, alone, 2, lora=None).train(1).save(tmp_path / "run")
    with pytest.raises(UsageError, match="no adapter"):
        consolidate(path, tmp_path / "out", form="adapter")
    assert json.loads((path / "state.json").read_text())["base"] is None
    assert consolidate(path, tmp_path / "out").is_dir()


@pytest.mark.parametrize("harm", ["missing", "of another form", "without a place"])
def test_weights_that_do_not_fit_their_model_are_not_exported(
    tiny: Path, alone: Ranks, tmp_path: Path, harm: str
) -> None:
    path = Training(tiny, alone, 2, lora=None).train(1).save(tmp_path / "run")
    file = path / "zero" / "mp_rank_00_model_states.pt"
    stored = torch.load(file, weights_only=False)
    weights = stored["module"]
    name = next(name for name in weights if name.endswith("q_proj.weight"))
    match harm:
        case "missing":
            del weights[name]
        case "of another form":
            weights[name] = weights[name][:-1].clone()
        case _:
            weights["model.layers.99.weight"] = weights[name]
    torch.save(stored, file)
    with pytest.raises(CheckpointError, match="does not fit the model") as caught:
        consolidate(path, tmp_path / "out")
    messages = {
        "missing": f"it lacks {name}",
        "of another form": f"{name} is [",
        "without a place": "model.layers.99.weight has no place",
    }
    assert messages[harm] in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.long  # exports have the trainer's logprobs above; each sync of a run compares vLLM's with them
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_vllm_and_transformers_give_exports_the_same_logprobs(tiny: Path, alone: Ranks, tmp_path: Path) -> None:
    """In another process: vLLM and a process group do not live in one."""
    adapted, whole = Training(tiny, alone, 3).train(), Training(tiny, alone, 2, lora=None).train()
    adapter = consolidate(adapted.save(tmp_path / "run"), tmp_path / "adapter", form="adapter")
    kept = consolidate(whole.save(tmp_path / "whole"), tmp_path / "kept")
    expected = {f"{tiny}:{adapter}": adapted.logprobs(), str(kept): whole.logprobs()}
    found = plain_logprobs(load_policy(kept))
    torch.testing.assert_close(found, expected[str(kept)], atol=1e-5, rtol=1e-4)
    worker = Path(__file__).parents[1] / "support" / "vllm_worker.py"
    ended = subprocess.run(
        [sys.executable, str(worker), json.dumps(IDS), *expected],
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-3000:]
    printed = [line for line in ended.stdout.splitlines() if line.startswith("[")]
    for line, logprobs in zip(printed, expected.values(), strict=True):
        torch.testing.assert_close(torch.tensor(json.loads(line))[1:], logprobs[1:], atol=1e-4, rtol=0)
