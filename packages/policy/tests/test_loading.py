"""Loading and saving: what is checked, what is refused, and that a directory appears whole."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from warpsmith.policy.config import PolicyConfig
from warpsmith.policy.errors import CheckpointError, TemplateError, TokenizerError
from warpsmith.policy.files import appearing_directory
from warpsmith.policy.loading import Policy, check_shapes, check_weights, count_parameters, load_chat, load_policy


@pytest.fixture
def copy(tiny_dir, tmp_path) -> Path:
    """A directory that the test may damage."""
    return shutil.copytree(tiny_dir, tmp_path / "copy")


def test_round_trip_keeps_everything(policy, tmp_path):
    again = Policy.load(policy.save(tmp_path / "saved"))
    for (name, ours), (other, theirs) in zip(
        policy.model.state_dict().items(), again.model.state_dict().items(), strict=True
    ):
        assert name == other
        assert torch.equal(ours, theirs)
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    assert again.chat.loss_mask(messages) == policy.chat.loss_mask(messages)
    assert again.chat.stop_token_ids == policy.chat.stop_token_ids
    assert not again.model.training


def test_save_takes_gathered_weights(policy, tmp_path):
    gathered = {name: torch.zeros_like(t) for name, t in policy.model.state_dict().items()}
    again = load_policy(policy.save(tmp_path / "zeros", state_dict=gathered))
    assert not any(p.any() for p in again.model.parameters())


def test_save_replaces_only_when_asked(policy, tmp_path):
    target = policy.save(tmp_path / "saved")
    with pytest.raises(CheckpointError, match="already exists"):
        policy.save(target)
    policy.save(target, overwrite=True)
    assert load_policy(target).model.config.vocab_size == policy.model.config.vocab_size
    assert [p.name for p in tmp_path.iterdir()] == ["saved"]


def test_a_failure_leaves_what_was_there(tmp_path):
    target = tmp_path / "out"
    target.mkdir()
    (target / "old").write_text("old")
    with pytest.raises(RuntimeError, match="half way"), appearing_directory(target, overwrite=True) as scratch:
        (scratch / "new").write_text("new")
        raise RuntimeError("half way")
    assert [p.name for p in tmp_path.rglob("*")] == ["out", "old"]


def test_nothing_appears_before_the_end(tmp_path):
    with appearing_directory(tmp_path / "out") as scratch:
        (scratch / "file").write_text("x")
        assert not (tmp_path / "out").exists()
    assert (tmp_path / "out" / "file").read_text() == "x"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_dtype(tiny_dir, dtype):
    assert load_policy(tiny_dir, dtype).model.dtype == getattr(torch, dtype)


def test_from_config(tiny_dir):
    policy = Policy.from_config(PolicyConfig(path=tiny_dir, dtype="float32", gradient_checkpointing=True))
    assert policy.model.is_gradient_checkpointing


def test_count_matches_the_model(tiny_dir, shared_policy):
    assert count_parameters(tiny_dir) == sum(p.numel() for p in shared_policy.model.parameters())


def test_chat_alone_reads_no_weights(copy):
    (copy / "model.safetensors").unlink()
    assert load_chat(copy).generation_prompt == "<|im_start|>assistant\n"


def test_stop_tokens_of_the_generation_config(copy):
    path = copy / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "eos_token_id": [2, 0]}))
    assert load_chat(copy).stop_token_ids == (2, 0)


# Damage ----------------------------------------------------------------------------------------------------------


def rewrite(path: Path, **changes) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def cut(path: Path, keep: int) -> None:
    path.write_bytes(path.read_bytes()[:keep])


DAMAGES = {
    "no config": (lambda d: (d / "config.json").unlink(), CheckpointError, "no config.json"),
    "config no json": (lambda d: (d / "config.json").write_text("{"), CheckpointError, "not JSON"),
    "config a list": (lambda d: (d / "config.json").write_text("[]"), CheckpointError, "not a JSON object"),
    "no model type": (lambda d: (d / "config.json").write_text("{}"), CheckpointError, "names no model_type"),
    "unknown model": (lambda d: rewrite(d / "config.json", model_type="zz"), CheckpointError, "cannot load"),
    "other sizes": (
        lambda d: rewrite(d / "config.json", intermediate_size=128),
        CheckpointError,
        "misshape|cannot load",
    ),
    "more layers": (
        lambda d: rewrite(d / "config.json", num_hidden_layers=3, layer_types=["full_attention"] * 3),
        CheckpointError,
        "11 tensors of the architecture are missing from or misshapen in",
    ),
    "no tokenizer": (lambda d: (d / "tokenizer.json").unlink(), TokenizerError, "no tokenizer.json"),
    "tokenizer cut": (lambda d: cut(d / "tokenizer.json", 200), TokenizerError, "cannot be read"),
    "no template": (lambda d: (d / "chat_template.jinja").unlink(), TemplateError, "no chat template"),
    "no weights": (lambda d: (d / "model.safetensors").unlink(), CheckpointError, "lacks model.safetensors"),
    "weights cut": (lambda d: cut(d / "model.safetensors", 20_000), CheckpointError, "cut short"),
    "header cut": (lambda d: cut(d / "model.safetensors", 40), CheckpointError, "cut short"),
    "weights empty": (lambda d: cut(d / "model.safetensors", 0), CheckpointError, "cut short"),
    "no shard": (
        lambda d: (d / "model.safetensors.index.json").write_text('{"weight_map": {"a": "m-1.safetensors"}}'),
        CheckpointError,
        "lacks m-1.safetensors",
    ),
    "empty index": (
        lambda d: (d / "model.safetensors.index.json").write_text("{}"),
        CheckpointError,
        "every weight file",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named(copy, damage):
    harm, kind, cause = DAMAGES[damage]
    harm(copy)
    with pytest.raises(kind, match=cause) as caught:
        load_policy(copy)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"vocab_size": 77}, "gives .*embed_tokens.weight the shape"),
        ({"intermediate_size": 20}, "gives .*mlp.* the shape"),
        ({"num_hidden_layers": 9, "layer_types": ["full_attention"] * 9}, r"layers\.\d.* lack it"),
        ({"model_type": "never_heard_of"}, "describes"),
        ({"hidden_size": "wide"}, "describes"),
    ],
)
def test_a_configuration_of_other_weights_is_distinguished_from_its_own(copy, changes, cause):
    check_shapes(copy)
    config = copy / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | changes))
    with pytest.raises(CheckpointError, match=cause):
        check_shapes(copy)


def test_no_directory(tmp_path):
    with pytest.raises(CheckpointError, match="does not exist"):
        load_policy(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="is a file"):
        load_policy(tmp_path / "file")


def test_a_model_that_is_not_there_is_to_be_fetched(tmp_path):
    with pytest.raises(CheckpointError) as caught:
        load_policy(tmp_path / "models" / "x")
    assert "warpsmith-policy fetch-smollm2 DIR" in caught.value.remedy
    assert "warpsmith-policy fetch Qwen/Qwen3-8B DIR" in caught.value.remedy
    with pytest.raises(CheckpointError, match="A training run writes it at its end"):
        load_policy(tmp_path / "runs" / "sft" / "final_model")


def test_shards_are_all_read(policy, tmp_path):
    policy.model.save_pretrained(tmp_path, max_shard_size="100KB")
    policy.tokenizer.save_pretrained(tmp_path)
    shards = check_weights(tmp_path)
    assert len(shards) > 1
    assert count_parameters(tmp_path) == sum(p.numel() for p in policy.model.parameters())
    cut(shards[-1], 100)
    with pytest.raises(CheckpointError, match=shards[-1].name):
        load_policy(tmp_path)
