"""Checkpoints of Megatron to Hugging Face, from files written here in the form of Megatron-Core's ranks."""

import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from megatron_files import (
    ITERATION,
    LAYERS,
    VOCAB,
    Case,
    arguments,
    hugging_face_model,
    write_mp_rank,
    write_torch_dist,
)
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from warpsmith.policy.cli import main
from warpsmith.policy.errors import CheckpointError, ConversionError, TokenizerError
from warpsmith.policy.loading import load_policy
from warpsmith.policy.megatron.convert import Options, to_hugging_face

QUIET = {"say": lambda _: None}
IDS = torch.randint(0, VOCAB, (2, 32), generator=torch.Generator().manual_seed(5))

# Each family, tied and untied, each number of shards and of stages, each layout and form of it.
CASES = [
    (Case("qwen3", tied=False, tp=2, pp=2), "torch_dist"),
    (Case("qwen2", tied=True, tp=1, pp=2), "apart"),
    (Case("llama", tied=False, tp=2, pp=1), "apart"),
    (Case("llama", tied=True, tp=1, pp=1), "torch_dist"),
    (Case("qwen3", tied=True, tp=2, pp=2), "mp_rank"),
    (Case("qwen2", tied=False, tp=2, pp=1), "mp_rank"),
    (Case("llama", tied=False, tp=1, pp=1), "mp_rank"),
    (Case("qwen3", tied=False, tp=1, pp=2), "interleaved"),
]


def written(out: Path, case: Case, layout: str = "torch_dist") -> Path:
    model = hugging_face_model(case)
    if layout in ("torch_dist", "apart"):
        return write_torch_dist(out, model, case, apart=layout == "apart")
    return write_mp_rank(out, model, case, interleaved=layout == "interleaved")


@pytest.mark.parametrize(("case", "layout"), CASES, ids=lambda value: str(value).replace(" ", ""))
def test_the_merged_model_is_the_one_that_was_cut(tmp_path, case, layout):
    out = to_hugging_face(written(tmp_path / "in", case, layout), tmp_path / "out", **QUIET)
    expected = hugging_face_model(case)
    found = AutoModelForCausalLM.from_pretrained(out)
    assert type(found) is type(expected)
    assert found.config.tie_word_embeddings == case.tied
    for name, tensor in expected.state_dict().items():
        assert torch.equal(found.state_dict()[name], tensor), name
    with torch.no_grad():
        assert torch.equal(found(IDS).logits, expected(IDS).logits)


def test_padding_of_the_vocabulary_and_states_of_the_training_are_left_out(tmp_path):
    out = to_hugging_face(written(tmp_path / "in", Case()), tmp_path / "out", **QUIET)
    weights = load_file(out / "model.safetensors")
    assert weights["lm_head.weight"].shape[0] == weights["model.embed_tokens.weight"].shape[0] == VOCAB
    assert len(weights) == 3 + 11 * LAYERS


def test_several_files_with_an_index(tmp_path):
    source = written(tmp_path / "in", Case(tp=2, pp=2))
    steps: list[str] = []
    out = to_hugging_face(source, tmp_path / "out", Options(file_bytes=150_000), say=steps.append)
    index = json.loads((out / "model.safetensors.index.json").read_text())
    files = sorted(path.name for path in out.glob("*.safetensors"))
    assert len(files) > 2
    assert set(index["weight_map"].values()) == set(files)
    assert sum(path.stat().st_size for path in out.glob("*.safetensors")) > index["metadata"]["total_size"]
    assert steps[1].startswith(f"wrote {files[0]} (1 of {len(files)}, ")
    assert AutoModelForCausalLM.from_pretrained(out).config.model_type == "qwen3"


def test_one_iteration_can_be_named(tmp_path):
    source = written(tmp_path / "in", Case())
    to_hugging_face(source / ITERATION, tmp_path / "out", **QUIET)
    assert (tmp_path / "out" / "config.json").is_file()


def test_weights_keep_their_dtype(tmp_path):
    case = Case("llama")
    source = write_torch_dist(tmp_path / "in", hugging_face_model(case).to(torch.bfloat16), case)
    out = to_hugging_face(source, tmp_path / "out", **QUIET)
    assert {tensor.dtype for tensor in load_file(out / "model.safetensors").values()} == {torch.bfloat16}
    assert json.loads((out / "config.json").read_text())["dtype"] == "bfloat16"


def test_scaled_rotary_embedding_of_llama_31(tmp_path):
    case = Case("llama")
    args = arguments(case, use_rope_scaling=True, rope_scaling_factor=32.0, rotary_base=500_000)
    source = write_torch_dist(tmp_path / "in", hugging_face_model(case), case, args=args)
    out = to_hugging_face(source, tmp_path / "out", **QUIET)
    rope = json.loads((out / "config.json").read_text())["rope_parameters"]
    assert rope == {
        "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192, "rope_theta": 500_000.0,
    }  # fmt: skip


# What does not come from the checkpoint --------------------------------------------------------------------------


@pytest.fixture
def released(tmp_path, tiny_dir) -> Path:
    """The directory of the model that was trained on: configuration, generation config and a tokenizer."""
    directory = tmp_path / "released"
    hugging_face_model(Case()).save_pretrained(directory)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copyfile(tiny_dir / name, directory / name)
    (directory / "generation_config.json").write_text('{"eos_token_id": [2, 0], "temperature": 0.6}')
    return directory


def test_configuration_and_tokenizer_of_the_released_model(tmp_path, released):
    out = to_hugging_face(written(tmp_path / "in", Case(tp=2)), tmp_path / "out", Options(config=released), **QUIET)
    assert (out / "tokenizer.json").read_bytes() == (released / "tokenizer.json").read_bytes()
    policy = load_policy(out)
    assert policy.chat.stop_token_ids == (2, 0)
    assert policy.chat.generation_prompt == "<|im_start|>assistant\n"


def test_a_checkpoint_without_training_arguments_needs_a_configuration(tmp_path, released):
    source = write_torch_dist(tmp_path / "in", hugging_face_model(Case()), Case(), args=None)
    with pytest.raises(ConversionError, match=r"holds no training arguments.*--config"):
        to_hugging_face(source, tmp_path / "out", **QUIET)
    out = to_hugging_face(source, tmp_path / "out", Options(config=released), **QUIET)
    assert AutoModelForCausalLM.from_pretrained(out).config.rope_parameters["rope_theta"] == 20_000


def test_a_configuration_of_another_model_is_refused(tmp_path, released):
    config = json.loads((released / "config.json").read_text())
    config["rope_parameters"]["rope_theta"] = 1_000_000.0
    (released / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConversionError, match=r"rope_theta = 1000000\.0; .* was trained with 20000\.0"):
        to_hugging_face(written(tmp_path / "in", Case()), tmp_path / "out", Options(config=released), **QUIET)


def test_size_of_the_vocabulary_from_the_tokenizer_or_the_option(tmp_path, tiny_dir):
    source = write_mp_rank(tmp_path / "in", hugging_face_model(Case()), Case(), vocab_size=None)
    with pytest.raises(ConversionError, match="--vocab-size"):
        to_hugging_face(source, tmp_path / "out", **QUIET)
    with pytest.raises(ConversionError, match=r"word_embeddings\.weight has the shape \[128, 64\]"):
        to_hugging_face(source, tmp_path / "out", Options(tokenizer=tiny_dir), **QUIET)
    out = to_hugging_face(source, tmp_path / "out", Options(vocab_size=VOCAB), **QUIET)
    assert json.loads((out / "config.json").read_text())["vocab_size"] == VOCAB


def test_a_directory_without_a_tokenizer_is_refused_as_one(tmp_path):
    with pytest.raises(TokenizerError):
        to_hugging_face(written(tmp_path / "in", Case()), tmp_path / "out", Options(tokenizer=tmp_path), **QUIET)
    assert not (tmp_path / "out").exists()


# Nothing of a checkpoint is run ----------------------------------------------------------------------------------


class Hostile:
    """Creates a file when it is unpickled by plain pickle."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self):
        return Path.touch, (self.witness,)


def test_no_code_of_a_checkpoint_is_run(tmp_path):
    witness, case = tmp_path / "witness", Case()
    pickle.loads(pickle.dumps(Hostile(witness)))
    assert witness.exists(), "the attack does not work"
    witness.unlink()
    dist = write_torch_dist(tmp_path / "dist", hugging_face_model(case), case, args=arguments(case, x=Hostile(witness)))
    index = pickle.loads((dist / ITERATION / ".metadata").read_bytes())
    index.planner_data = Hostile(witness)
    (dist / ITERATION / ".metadata").write_bytes(pickle.dumps(index))
    rank = write_mp_rank(tmp_path / "rank", hugging_face_model(case), case, x=Hostile(witness))
    for name in ("dist", "rank"):
        to_hugging_face(dist if name == "dist" else rank, tmp_path / f"out-{name}", **QUIET)
        assert not witness.exists(), name


def test_a_tensor_that_is_a_program_is_refused(tmp_path):
    witness, case = tmp_path / "witness", Case()
    source = write_torch_dist(tmp_path / "in", hugging_face_model(case), case)
    index = pickle.loads((source / ITERATION / ".metadata").read_bytes())
    place = next(p for i, p in index.storage_data.items() if i.fqn == "decoder.final_layernorm.weight")
    file = source / ITERATION / "hostile.distcp"
    torch.save(Hostile(witness), file)
    place.relative_path, place.offset, place.length = file.name, 0, file.stat().st_size
    (source / ITERATION / ".metadata").write_bytes(pickle.dumps(index))
    with pytest.raises(CheckpointError, match=r"hostile\.distcp holds no tensor at 0"):
        to_hugging_face(source, tmp_path / "out", **QUIET)
    assert not witness.exists()


# Damaged and partial checkpoints ---------------------------------------------------------------------------------


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(directory: Path) -> None:
    """Change one byte in the middle of the largest chunk, which is in its data."""
    index = pickle.loads((directory / ".metadata").read_bytes())
    place = max(index.storage_data.values(), key=lambda one: one.length)
    path = directory / place.relative_path
    data = bytearray(path.read_bytes())
    data[place.offset + place.length // 2] ^= 0xFF
    path.write_bytes(data)


def edited(path: Path, edit) -> None:
    index = pickle.loads(path.read_bytes())
    edit(index)
    path.write_bytes(pickle.dumps(index))


def lose_a_chunk(index) -> None:
    index.state_dict_metadata["decoder.layers.mlp.linear_fc2.weight"].chunks.pop()


def move_a_chunk(index) -> None:
    """Let two chunks overlap: as many elements as the tensor has, and some of them in none."""
    chunks = index.state_dict_metadata["embedding.word_embeddings.weight"].chunks
    place = next(p for p in index.storage_data if p.fqn.startswith("embedding") and p.offset == chunks[1].offsets)
    chunks[1].offsets = torch.Size((32, 0))
    index.storage_data[type(place)(place.fqn, chunks[1].offsets)] = index.storage_data.pop(place)


def lose_a_tensor(index) -> None:
    del index.state_dict_metadata["decoder.final_layernorm.weight"]


def rename_a_tensor(index) -> None:
    index.state_dict_metadata["decoder.layers.lora.weight"] = index.state_dict_metadata.pop(
        "decoder.layers.self_attention.q_layernorm.weight"
    )
    for place in list(index.storage_data):
        if place.fqn == "decoder.layers.self_attention.q_layernorm.weight":
            renamed = type(place)("decoder.layers.lora.weight", place.offset)
            index.storage_data[renamed] = index.storage_data.pop(place)


def leave_the_directory(index) -> None:
    place = next(p for i, p in index.storage_data.items() if i.fqn == "decoder.final_layernorm.weight")
    place.relative_path = "../../secret.distcp"


DAMAGE = {
    "no index": (lambda d: (d / ".metadata").unlink(), r"neither \.metadata .* nor mp_rank"),
    "half an index": (lambda d: cut_short(d / ".metadata"), r"\.metadata is damaged or cut short"),
    "no index at all": (lambda d: (d / ".metadata").write_bytes(b"none"), r"\.metadata is damaged or cut short"),
    "half of the arguments": (lambda d: cut_short(d / "common.pt"), r"common\.pt is damaged or cut short"),
    "a rank's file is absent": (lambda d: (d / "__1_0.distcp").unlink(), r"lacks __1_0\.distcp"),
    "a rank's file is cut short": (lambda d: cut_short(d / "__1_0.distcp"), r"has cut short __1_0\.distcp"),
    "a byte is flipped": (flip, "is damaged .*checksum"),
    "a chunk is absent": (lambda d: edited(d / ".metadata", lose_a_chunk), "linear_fc2.weight .* do not fill"),
    "chunks overlap": (lambda d: edited(d / ".metadata", move_a_chunk), "word_embeddings.weight .* do not fill"),
    "a tensor is absent": (lambda d: edited(d / ".metadata", lose_a_tensor), "missing, first decoder.final_layernorm"),
    "a tensor of another model": (lambda d: edited(d / ".metadata", rename_a_tensor), "missing, first .*q_layernorm"),
    "a file outside": (lambda d: edited(d / ".metadata", leave_the_directory), "names a file outside"),
    "another layout": (
        lambda d: [(d / ".metadata").unlink(), (d / "metadata.json").write_text('{"sharded_backend": "zarr"}')],
        "saved as 'zarr'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_torch_dist_is_named_and_nothing_is_left(tmp_path, damage):
    source = written(tmp_path / "in", Case(tp=2))
    harm, message = DAMAGE[damage]
    harm(source / ITERATION)
    with pytest.raises((CheckpointError, ConversionError), match=message):
        to_hugging_face(source, tmp_path / "out", **QUIET)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


RANK_DAMAGE = {
    "no rank of a shard": (lambda d: shutil.rmtree(d / "mp_rank_01_001"), "files of 3 ranks, without that of tensor"),
    "no stage": (
        lambda d: [shutil.rmtree(d / f"mp_rank_0{i}_001") for i in (0, 1)],
        r"2 tensor shards of 2 pipeline stages \(4 ranks\) were expected",
    ),
    "a rank too many": (lambda d: shutil.copytree(d / "mp_rank_00_000", d / "mp_rank_02_000"), "files of 5 ranks"),
    "experts": (lambda d: (d / "mp_rank_00_000").rename(d / "mp_rank_00_000_000"), "model with experts"),
    "no file": (lambda d: (d / "mp_rank_00_000" / "model_optim_rng.pt").unlink(), "has no model_optim_rng"),
    "half a file": (lambda d: cut_short(d / "mp_rank_01_000" / "model_optim_rng.pt"), "damaged or cut short"),
}


@pytest.mark.parametrize("damage", RANK_DAMAGE)
def test_damaged_ranks_are_named_and_nothing_is_left(tmp_path, damage):
    source = written(tmp_path / "in", Case(tp=2, pp=2), "mp_rank")
    harm, message = RANK_DAMAGE[damage]
    harm(source / ITERATION)
    with pytest.raises((CheckpointError, ConversionError), match=message):
        to_hugging_face(source, tmp_path / "out", **QUIET)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_ranks_of_two_trainings(tmp_path):
    source = written(tmp_path / "in", Case(tp=2), "mp_rank")
    file = source / ITERATION / "mp_rank_01" / "model_optim_rng.pt"
    state = torch.load(file, weights_only=False)
    state["model"]["decoder.final_layernorm.weight"] += 1
    torch.save(state, file)
    with pytest.raises(CheckpointError, match=r"final_layernorm\.weight differs between the tensor ranks"):
        to_hugging_face(source, tmp_path / "out", **QUIET)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"num_experts": 8}, "num_experts = 8"),
        ({"normalization": "LayerNorm"}, "normalization = 'LayerNorm'"),
        ({"position_embedding_type": "learned_absolute"}, "position_embedding_type"),
        ({"add_qkv_bias": True}, "biases .* and norms"),
        ({"num_layers": 5}, "missing, first decoder.layers.4"),
        ({"num_layers": 3}, "not part of the model, first decoder.layers.3"),
        ({"ffn_hidden_size": 95}, r"linear_fc1\.weight has the shape \[192, 64\]; \[190, 64\] was expected"),
        ({"num_query_groups": 4}, "linear_qkv.weight has the shape"),
        ({"hidden_size": None}, "do not give its sizes"),
        ({"untie_embeddings_and_output_weights": False}, "output layer that differs from its embedding"),
    ],
)
def test_an_unknown_architecture_is_named(tmp_path, changed, message):
    source = write_mp_rank(tmp_path / "in", hugging_face_model(Case()), Case(), **changed)
    with pytest.raises((CheckpointError, ConversionError), match=message):
        to_hugging_face(source, tmp_path / "out", **QUIET)
    assert not (tmp_path / "out").exists()


def test_the_architecture_asked_for_is_compared(tmp_path):
    with pytest.raises(ConversionError, match=r"which is qwen3; --architecture says llama"):
        to_hugging_face(written(tmp_path / "in", Case()), tmp_path / "out", Options(family="llama"), **QUIET)


# The command -----------------------------------------------------------------------------------------------------


def test_the_command_says_what_it_wrote(tmp_path, capsys, monkeypatch):
    source = written(tmp_path / "in", Case(tp=2))
    monkeypatch.setattr(sys, "argv", ["warpsmith-policy", "convert", str(source), str(tmp_path / "out")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    printed = capsys.readouterr()
    assert "no tokenizer: pass --tokenizer" in printed.err
    assert "Qwen3ForCausalLM" in printed.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--architecture", "gpt2"], "Unknown architecture gpt2"),
        (["--to", "gguf"], "Unknown format gguf"),
        (["--to", "megatron", "--vocab-size", "5"], "are for --to hf"),
        (["--config", "{tmp}/none"], "has no config.json"),
        ([], "is not a directory"),
    ],
)
def test_bad_input_is_one_paragraph(tmp_path, options, message):
    source = tmp_path / "none" if not options else written(tmp_path / "in", Case())
    given = [option.format(tmp=tmp_path) for option in options]
    command = [sys.executable, "-m", "warpsmith.policy", "convert", str(source), str(tmp_path / "out"), *given]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert "\n\n" not in done.stderr.strip()
    assert not (tmp_path / "out").exists()
