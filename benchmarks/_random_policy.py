"""Writes a policy of a known shape with random weights: a Hugging Face directory, in shards, made on the GPUs.

    python benchmarks/_random_policy.py --shape qwen3-8b --tokenizer models/smollm2-135m models/random-qwen3-8b

The tokenizer can have fewer tokens than the shape's vocabulary. The others are never sampled: the output layer gives
them a logit of about -50. For that the first channel of the residual stream is constant: each embedding has it, and no
layer adds to it. Completions are random text of the tokenizer's tokens, nearly all at the length limit.

Each GPU makes some of the shards, in a process of its own; without GPUs one process makes all.
"""

import argparse
import json
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from warpsmith.trainer.planning.shapes import KNOWN, ModelShape

SHAPES: Final = KNOWN | {
    "tiny": ModelShape("tiny", 2, 64, 192, 2, 1, 32, 65536, tied=False, normed=True),
}
_SHARD_BYTES: Final = 2 << 30
_DEVIATION: Final = 0.02
_CONSTANT: Final = 1.0
"""Value of the residual stream's first channel."""
_NEVER: Final = -50.0
"""Logit of a token that the tokenizer does not have, about."""
_TOKENIZER_FILES: Final = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja", "vocab.json",
    "merges.txt", "added_tokens.json", "generation_config.json",
)  # fmt: skip


@dataclass(frozen=True)
class Weight:
    """One tensor: its name, its size, and the deviation of its values; None for ones."""

    name: str
    size: tuple[int, ...]
    deviation: float | None = _DEVIATION

    @property
    def bytes(self) -> int:
        """Its size in bfloat16."""
        elements = 1
        for length in self.size:
            elements *= length
        return 2 * elements


def weights_of(shape: ModelShape) -> Iterator[Weight]:
    """Yield every tensor of a Qwen3 or Llama, in the order of the layers."""
    yield Weight("model.embed_tokens.weight", (shape.vocabulary, shape.hidden))
    for number in range(shape.layers):
        yield from _layer(shape, f"model.layers.{number}.")
    yield Weight("model.norm.weight", (shape.hidden,), None)
    if not shape.tied:
        yield Weight("lm_head.weight", (shape.vocabulary, shape.hidden))


def _layer(shape: ModelShape, prefix: str) -> Iterator[Weight]:
    for norm in ("input_layernorm", "post_attention_layernorm"):
        yield Weight(f"{prefix}{norm}.weight", (shape.hidden,), None)
    for norm in ("q_norm", "k_norm") if shape.normed else ():
        yield Weight(f"{prefix}self_attn.{norm}.weight", (shape.head_dim,), None)
    for name, (into, out) in shape.projections.items():
        part = "mlp" if name in ("gate_proj", "up_proj", "down_proj") else "self_attn"
        # What each layer adds to the residual stream is small, so that 36 of them do not let it grow.
        last = name in ("o_proj", "down_proj")
        deviation = _DEVIATION / (2 * shape.layers) ** 0.5 if last else _DEVIATION
        yield Weight(f"{prefix}{part}.{name}.weight", (out, into), deviation)


def shards_of(shape: ModelShape) -> list[list[Weight]]:
    """Return the tensors in groups of about 2 GiB."""
    shards: list[list[Weight]] = [[]]
    size = 0
    for weight in weights_of(shape):
        if size and size + weight.bytes > _SHARD_BYTES:
            shards.append([])
            size = 0
        shards[-1].append(weight)
        size += weight.bytes
    return shards


def config_of(shape: ModelShape, eos: int) -> dict[str, Any]:
    """Return config.json."""
    kind, name = ("qwen3", "Qwen3ForCausalLM") if shape.normed else ("llama", "LlamaForCausalLM")
    return {
        "architectures": [name],
        "model_type": kind,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "eos_token_id": eos,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "hidden_size": shape.hidden,
        "initializer_range": _DEVIATION,
        "intermediate_size": shape.intermediate,
        "max_position_embeddings": 40960,
        "num_attention_heads": shape.heads,
        "num_hidden_layers": shape.layers,
        "num_key_value_heads": shape.kv_heads,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "tie_word_embeddings": shape.tied,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "vocab_size": shape.vocabulary,
    }


def _write_shard(path: Path, weights: list[Weight], tokens: int, seed: int, device: str) -> None:
    import torch
    from safetensors.torch import save_file

    generator = torch.Generator(device).manual_seed(seed)
    made = {}
    for weight in weights:
        value = torch.ones(weight.size, device=device, dtype=torch.bfloat16)
        if weight.deviation is not None:
            value.normal_(0.0, weight.deviation, generator=generator)
        _keep_first_channel(weight.name, value, tokens)
        made[weight.name] = value.cpu()
    save_file(made, path, metadata={"format": "pt"})


def _keep_first_channel(name: str, value: Any, tokens: int) -> None:
    """Make the first channel of the residual stream constant, and unknown tokens unlikely by it; see the module."""
    if name.endswith(("o_proj.weight", "down_proj.weight")):
        value[0] = 0.0
    elif name == "model.embed_tokens.weight":
        value[:, 0] = _CONSTANT
    elif name == "lm_head.weight":
        # The last norm leaves the channel at about 1 or more: the other channels of the stream are about as large.
        value[:, 0] = 0.0
        value[tokens:, 0] = _NEVER


def write_policy(directory: Path, shape: ModelShape, tokenizer: Path) -> None:
    """Write the policy.

    Args:
        directory: where to; must not exist.
        shape: its shape; without tied embeddings, which would leave no room for the constant channel.
        tokenizer: a directory with the tokenizer.
    """
    import torch
    from tokenizers import Tokenizer

    if shape.tied or shape.biased:
        raise SystemExit(f"{shape.name} has tied embeddings or biases; choose another shape, such as qwen3-8b.")
    found = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    tokens = found.get_vocab_size()
    if tokens > shape.vocabulary:
        raise SystemExit(f"{tokenizer} has {tokens} tokens; {shape.name} has only {shape.vocabulary}.")
    end = json.loads((tokenizer / "tokenizer_config.json").read_text(encoding="utf-8"))["eos_token"]
    directory.mkdir(parents=True)
    for name in _TOKENIZER_FILES:
        if (tokenizer / name).is_file():
            shutil.copy(tokenizer / name, directory / name)
    (directory / "config.json").write_text(json.dumps(config_of(shape, found.token_to_id(end)), indent=2))
    gpus = torch.cuda.device_count()
    shards = shards_of(shape)
    names = [f"model-{number:05}-of-{len(shards):05}.safetensors" for number in range(1, len(shards) + 1)]
    devices = [f"cuda:{number % gpus}" if gpus else "cpu" for number in range(len(shards))]
    arguments = [
        (directory / name, weights, tokens, seed, device)
        for seed, (name, weights, device) in enumerate(zip(names, shards, devices, strict=True))
    ]
    if gpus:
        with ProcessPoolExecutor(min(gpus, len(shards)), mp_context=get_context("spawn")) as pool:
            list(pool.map(_write_shard, *zip(*arguments, strict=True)))
    else:
        for one in arguments:
            _write_shard(*one)
    files = {weight.name: name for name, weights in zip(names, shards, strict=True) for weight in weights}
    index = {"metadata": {"total_size": sum(w.bytes for s in shards for w in s)}, "weight_map": files}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="qwen3-8b")
    parser.add_argument("--tokenizer", type=Path, required=True, help="a Hugging Face directory")
    parser.add_argument("--layers", type=int, help="fewer layers than the shape has, at its full width")
    given = parser.parse_args()
    began = time.monotonic()
    shape = SHAPES[given.shape]
    shape = replace(shape, layers=given.layers or shape.layers)
    write_policy(given.directory, shape, given.tokenizer)
    print(f"{given.directory}: {shape.parameters:,} parameters in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
