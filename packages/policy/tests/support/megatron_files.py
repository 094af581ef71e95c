"""Writes small checkpoints as Megatron-Core's ranks do. `test_with_megatron.py` shows that its own have this form."""

from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, PreTrainedModel, Qwen2Config, Qwen3Config
from transformers.models.auto.modeling_auto import AutoModelForCausalLM

from warpsmith.policy.megatron.torch_dist_writer import TorchDistWriter

LAYERS, HIDDEN, FFN, HEADS, GROUPS, VOCAB, PADDED = 4, 64, 96, 4, 2, 123, 128
CONFIGS = {"llama": LlamaConfig, "qwen2": Qwen2Config, "qwen3": Qwen3Config}
ITERATION = "iter_0000007"


@dataclass(frozen=True)
class Case:
    """A model and how many ranks it is sharded over."""

    family: str = "qwen3"
    tied: bool = False
    tp: int = 1
    pp: int = 1

    @property
    def head_dim(self) -> int:
        """Qwen3's heads need not add up to the hidden size."""
        return 32 if self.family == "qwen3" else HIDDEN // HEADS


def hugging_face_model(case: Case) -> PreTrainedModel:
    """A model whose every weight matters for its log-probabilities."""
    config = CONFIGS[case.family](
        vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=GROUPS, head_dim=case.head_dim, max_position_embeddings=32,
        rope_parameters={"rope_type": "default", "rope_theta": 20_000.0}, tie_word_embeddings=case.tied,
        rms_norm_eps=1e-5, hidden_act="silu", dtype="float32",
    )  # fmt: skip
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn_like(weight)
            weight.copy_(1 + 0.3 * noise if "norm" in name else 0.15 * noise)
    return model


def arguments(case: Case, **changed: Any) -> Namespace:
    """What Megatron-LM keeps of its command line, with an object of a class that is not installed here."""
    given = {
        "num_layers": LAYERS, "hidden_size": HIDDEN, "ffn_hidden_size": FFN, "num_attention_heads": HEADS,
        "group_query_attention": True, "num_query_groups": GROUPS, "kv_channels": case.head_dim,
        "untie_embeddings_and_output_weights": not case.tied, "normalization": "RMSNorm", "norm_epsilon": 1e-5,
        "swiglu": True, "add_bias_linear": False, "add_qkv_bias": case.family == "qwen2",
        "qk_layernorm": case.family == "qwen3", "position_embedding_type": "rope", "rotary_base": 20_000,
        "rotary_percent": 1.0, "max_position_embeddings": 32, "seq_length": 32, "vocab_size": VOCAB,
        "padded_vocab_size": PADDED, "params_dtype": torch.float32, "tensor_model_parallel_size": case.tp,
        "pipeline_model_parallel_size": case.pp,
    }  # fmt: skip
    return Namespace(**{**given, **changed})


def whole_tensors(model: PreTrainedModel, case: Case) -> dict[str, torch.Tensor]:
    """Megatron's tensors of a model on one rank, by the names of distributed checkpoints.

    Rows of query, key and value are picked one head at a time, which is not how the package does it.
    """
    weights = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    padding = torch.full((PADDED - VOCAB, HIDDEN), 7.0, dtype=model.dtype)
    found = {
        "embedding.word_embeddings.weight": torch.cat([weights["model.embed_tokens.weight"], padding]),
        "decoder.final_layernorm.weight": weights["model.norm.weight"],
    }
    if not case.tied:
        found["output_layer.weight"] = torch.cat([weights["lm_head.weight"], padding])
    for i in range(LAYERS):
        theirs, ours = f"model.layers.{i}.", f"decoder.layers.{i}."
        for kind in ["weight", "bias"][: 1 + (case.family == "qwen2")]:
            q, k, v = (weights[f"{theirs}self_attn.{n}_proj.{kind}"].split(case.head_dim) for n in "qkv")
            share = HEADS // GROUPS
            rows = [row for g in range(GROUPS) for row in (*q[g * share : (g + 1) * share], k[g], v[g])]
            found[f"{ours}self_attention.linear_qkv.{kind}"] = torch.cat(rows)
        found[f"{ours}mlp.linear_fc1.weight"] = torch.cat(
            [weights[f"{theirs}mlp.gate_proj.weight"], weights[f"{theirs}mlp.up_proj.weight"]]
        )
        found |= {f"{ours}{name}": weights[f"{theirs}{other}"] for name, other in _alike(case)}
    return found


def _alike(case: Case) -> Iterator[tuple[str, str]]:
    yield "self_attention.linear_qkv.layer_norm_weight", "input_layernorm.weight"
    yield "self_attention.linear_proj.weight", "self_attn.o_proj.weight"
    yield "mlp.linear_fc1.layer_norm_weight", "post_attention_layernorm.weight"
    yield "mlp.linear_fc2.weight", "mlp.down_proj.weight"
    if case.family == "qwen3":
        yield "self_attention.q_layernorm.weight", "self_attn.q_norm.weight"
        yield "self_attention.k_layernorm.weight", "self_attn.k_norm.weight"


def cut_dimension(name: str) -> int | None:
    """Along which dimension tensor parallelism cuts a tensor."""
    if name.endswith(("linear_proj.weight", "linear_fc2.weight")):
        return 1
    uncut = "norm" in name.rpartition(".")[0].rpartition(".")[2] or name.endswith("layer_norm_weight")
    return None if uncut else 0


def write_torch_dist(out: Path, model: PreTrainedModel, case: Case, *, apart: bool = False, **common: Any) -> Path:
    """Write `torch_dist` as tp x pp ranks do, each into a file of its own; `apart` is the newer form of keys."""
    directory = out / ITERATION
    directory.mkdir(parents=True)
    writer = TorchDistWriter(directory)
    for name, whole in whole_tensors(model, case).items():
        parts = name.split(".")
        layer = int(parts[2]) if name.startswith("decoder.layers.") else None
        stage = 0 if layer is None else layer * case.pp // LAYERS
        halves = whole.chunk(2) if "linear_fc1.weight" in name else (whole,)
        for half, tensor in enumerate(halves):
            key, offset, shape = name, half * len(tensor), list(whole.shape)
            if apart and len(halves) == 2:
                key, offset, shape = f"{name}_{'wv'[half]}", 0, list(tensor.shape)
            for rank, (start, piece) in enumerate(_cut(tensor, cut_dimension(name), case.tp)):
                place = [start[0] + offset, *start[1:]]
                file = f"__{stage * case.tp + rank}_0.distcp"
                if layer is None or apart:
                    writer.add(key, piece, tuple(shape), tuple(place), file=file)
                else:
                    joint = "decoder.layers." + ".".join(parts[3:])
                    writer.add(joint, piece[None], (LAYERS, *shape), (layer, *place), file=file)
    for layer in range(LAYERS):
        writer.add_object(f"decoder.layers.mlp.linear_fc1._extra_state/shard_{layer}_{LAYERS}", None)
    # A training's own states, which are no weights of the model.
    writer.add("optimizer.state.exp_avg.decoder.final_layernorm.weight", torch.ones(HIDDEN))
    writer.add_object("rng_state/shard_0_1", {"cuda": None})
    writer.close({"args": arguments(case), "checkpoint_version": 3.0, "iteration": 7, **common})
    (out / "latest_checkpointed_iteration.txt").write_text("7")
    return out


def _cut(tensor: torch.Tensor, dimension: int | None, count: int) -> Iterator[tuple[list[int], torch.Tensor]]:
    if dimension is None:
        yield [0] * tensor.dim(), tensor
        return
    start = [0] * tensor.dim()
    for piece in tensor.chunk(count, dim=dimension):
        yield list(start), piece
        start[dimension] += piece.shape[dimension]


def write_mp_rank(out: Path, model: PreTrainedModel, case: Case, *, interleaved: bool = False, **changed: Any) -> Path:
    """Write one file per rank, with the local names and numbers of layers, as `--ckpt-format torch` does.

    With `interleaved` each stage has two chunks of layers.
    """
    chunks = 2 if interleaved else 1
    per_chunk = LAYERS // case.pp // chunks
    whole = whole_tensors(model, case)
    for stage in range(case.pp):
        for rank in range(case.tp):
            models = {}
            for chunk in range(chunks):
                first = (chunk * case.pp + stage) * per_chunk
                part = _stage(whole, case, range(first, first + per_chunk), rank)
                models[f"model{chunk}" if interleaved else "model"] = part
            name = f"mp_rank_{rank:02d}" + (f"_{stage:03d}" if case.pp > 1 else "")
            directory = out / ITERATION / name
            directory.mkdir(parents=True)
            state = {"args": arguments(case, **changed), "checkpoint_version": 3.0, "iteration": 7, **models}
            torch.save(state, directory / "model_optim_rng.pt")
    (out / "latest_checkpointed_iteration.txt").write_text("7")
    return out


def _stage(whole: Mapping[str, torch.Tensor], case: Case, layers: range, rank: int) -> dict[str, Any]:
    """The model of one rank: its layers counted from 0, norms under their local names."""
    first, last = layers.start == 0, layers.stop == LAYERS
    found: dict[str, Any] = {}
    for name, tensor in whole.items():
        parts = name.split(".")
        if name.startswith("decoder.layers."):
            if int(parts[2]) not in layers:
                continue
            parts[2] = str(int(parts[2]) - layers.start)
        elif not (first if name.startswith("embedding") else last):
            continue
        found[_local(".".join(parts))] = _piece(name, tensor, case.tp, rank)
    if case.tied and last and not first:
        name = "embedding.word_embeddings.weight"
        found["output_layer.weight"] = _piece(name, whole[name], case.tp, rank)
    found["decoder.layers.0.mlp.linear_fc1._extra_state"] = None
    return found


def _local(name: str) -> str:
    name = name.replace("self_attention.linear_qkv.layer_norm_weight", "input_layernorm.weight")
    return name.replace("mlp.linear_fc1.layer_norm_weight", "pre_mlp_layernorm.weight")


def _piece(name: str, tensor: torch.Tensor, count: int, rank: int) -> torch.Tensor:
    dimension = cut_dimension(name)
    if dimension is None:
        return tensor.clone()
    if "linear_fc1.weight" in name:
        return torch.cat([half.chunk(count)[rank] for half in tensor.chunk(2)])
    return tensor.chunk(count, dim=dimension)[rank].clone()
