"""Hugging Face directories to Megatron's torch_dist, read back by torch's own reader and by this package."""

import json
import sys
from pathlib import Path

import pytest
import torch
from megatron_files import LAYERS, VOCAB, Case, hugging_face_model, whole_tensors
from safetensors.torch import load_file, save_file
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

from warpsmith.policy.cli import main
from warpsmith.policy.errors import CheckpointError, ConversionError
from warpsmith.policy.megatron.convert import to_hugging_face
from warpsmith.policy.megatron.export import to_megatron

QUIET = {"say": lambda _: None}
CASES = [Case("qwen3"), Case("qwen2", tied=True), Case("llama")]


def model_directory(out: Path, case: Case) -> Path:
    hugging_face_model(case).save_pretrained(out)
    return out


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.family)
def test_torchs_reader_finds_megatrons_tensors(tmp_path, case):
    out = to_megatron(model_directory(tmp_path / "hf", case), tmp_path / "out", **QUIET)
    assert (out / "latest_checkpointed_iteration.txt").read_text() == "release"
    reader = FileSystemReader(out / "release")
    index = reader.read_metadata().state_dict_metadata
    tensors = {key: torch.empty(entry.size) for key, entry in index.items() if hasattr(entry, "size")}
    _load_state_dict(tensors, reader, planner=DefaultLoadPlanner(), no_dist=True)
    expected = whole_tensors(hugging_face_model(case), case)
    for name, tensor in expected.items():
        parts = name.split(".")
        if name.startswith("decoder.layers."):
            found = tensors["decoder.layers." + ".".join(parts[3:])]
            assert found.shape[0] == LAYERS
            found = found[int(parts[2])]
        else:
            found = tensors[name]
        rows = VOCAB if "embedding" in name or "output_layer" in name else None
        assert found.shape == tensor.shape, name
        assert torch.equal(found[:rows], tensor[:rows]), name
        assert rows is None or not found[rows:].any(), name
    arguments = torch.load(out / "release" / "common.pt", weights_only=False)["args"]
    assert (arguments.vocab_size, arguments.padded_vocab_size) == (VOCAB, 128)
    assert arguments.rotary_base == 20_000


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.family)
def test_there_and_back_changes_no_bit(tmp_path, case):
    source = model_directory(tmp_path / "hf", case)
    back = to_hugging_face(to_megatron(source, tmp_path / "m", **QUIET), tmp_path / "back", **QUIET)
    before, after = (load_file(path / "model.safetensors") for path in (source, back))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    configs = [json.loads((path / "config.json").read_text()) for path in (source, back)]
    for name in ("rope_parameters", "num_key_value_heads", "head_dim", "rms_norm_eps", "vocab_size", "architectures"):
        assert configs[0].get(name) == configs[1].get(name), name


def edit_config(directory: Path, **changed) -> None:
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, **changed}))


def edit_weights(directory: Path, edit) -> None:
    weights = load_file(directory / "model.safetensors")
    edit(weights)
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})


WRONG = {
    "another architecture": (lambda d: edit_config(d, model_type="gpt2"), "is of a gpt2; llama or qwen2 or qwen3"),
    "a bias": (lambda d: edit_config(d, attention_bias=True), "attention_bias = True"),
    "a scaling": (
        lambda d: edit_config(d, rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 20_000.0}),
        "Llama 3.1's scaling alone",
    ),
    "a missing tensor": (
        lambda d: edit_weights(d, lambda w: w.pop("model.norm.weight")),
        r"1 tensors are missing, first model\.norm\.weight",
    ),
    "an adapter": (
        lambda d: edit_weights(d, lambda w: w.update({"model.layers.0.lora_A.weight": torch.ones(1)})),
        r"unexpected, first model\.layers\.0\.lora_A",
    ),
    "another shape": (
        lambda d: edit_weights(d, lambda w: w.update({"model.norm.weight": torch.ones(5)})),
        r"model\.norm\.weight has the shape \[5\]; its config\.json gives \[64\]",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_written_is_named_and_nothing_is_left(tmp_path, wrong):
    source = model_directory(tmp_path / "hf", Case("qwen3"))
    change, message = WRONG[wrong]
    change(source)
    with pytest.raises((CheckpointError, ConversionError), match=message):
        to_megatron(source, tmp_path / "out", **QUIET)
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]


def test_the_command(tmp_path, capsys, monkeypatch):
    source = model_directory(tmp_path / "hf", Case("llama", tied=True))
    arguments = ["convert", str(source), str(tmp_path / "out"), "--to", "megatron", "--architecture", "llama"]
    monkeypatch.setattr(sys, "argv", ["warpsmith-policy", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert f"layer {LAYERS} of {LAYERS}" in capsys.readouterr().err
    assert (tmp_path / "out" / "release" / ".metadata").is_file()
