"""What a decoder is made of, from Megatron's arguments or from a `config.json`, and which of that is supported."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from warpsmith.policy.errors import CheckpointError, ConversionError
from warpsmith.policy.loading import read_config

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig

Family = Literal["llama", "qwen2", "qwen3"]
FAMILIES: Final[tuple[Family, ...]] = get_args(Family)

# Arguments that change what the model computes, and their values with which it is one of the families.
_SUPPORTED: Final[dict[str, tuple[Any, ...]]] = {
    "normalization": (None, "RMSNorm"),
    "position_embedding_type": (None, "rope"),
    "swiglu": (None, True),
    "add_bias_linear": (None, False),
    "apply_layernorm_1p": (None, False),
    "rotary_percent": (None, 1.0),
    "rotary_interleaved": (None, False),
    "rotary_seq_len_interpolation_factor": (None,),
    "num_experts": (None,),
    "multi_latent_attention": (None, False),
    "window_size": (None,),
    "no_rope_freq": (None,),
    "linear_attention_freq": (None,),
    "mtp_num_layers": (None, 0),
    "attention_output_gate": (None, False),
    "qk_l2_norm": (None, False),
    "softmax_type": (None, "vanilla"),
    "apply_residual_connection_post_layernorm": (None, False),
    "openai_gelu": (None, False),
    "squared_relu": (None, False),
}

# `--use-rope-scaling` of Megatron is Llama 3.1's, whose other numbers are constants there.
_LLAMA31_SCALING: Final = {
    "rope_type": "llama3",
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


@dataclass(frozen=True)
class Architecture:
    """A decoder's architecture.

    Attributes:
        family: whose it is; Qwen2 has biases of query, key and value, Qwen3 norms of query and key.
        layers, hidden, ffn, heads, kv_heads, head_dim: its sizes.
        tied: whether the output layer is the embedding.
        norm_eps: added to the variance in norms.
        rope_theta: base of the rotary embedding.
        rope_scaling: its other parameters, empty if there are none.
        max_positions: the most positions it was made for.
        vocab_size: the rows of the embedding that belong to tokens; None if unknown.
    """

    family: Family
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    tied: bool
    norm_eps: float
    rope_theta: float
    rope_scaling: Mapping[str, Any]
    max_positions: int
    vocab_size: int | None

    @property
    def qkv_bias(self) -> bool:
        """Whether query, key and value have biases."""
        return self.family == "qwen2"

    @property
    def qk_norm(self) -> bool:
        """Whether query and key have norms."""
        return self.family == "qwen3"

    def sized(self, vocab_size: int | None) -> "Architecture":
        """Return it with another vocabulary size, or unchanged if None."""
        return self if vocab_size is None else replace(self, vocab_size=vocab_size)


def from_arguments(arguments: Mapping[str, Any], where: Path, family: Family | None = None) -> Architecture:
    """Return the architecture that Megatron's training arguments describe.

    Args:
        arguments: the arguments that a checkpoint holds.
        where: the checkpoint, for messages.
        family: the family, if the arguments are not to decide.

    Raises:
        ConversionError: they describe another architecture than a Llama, Qwen2 or Qwen3.
        CheckpointError: one is missing.
    """
    for name, supported in _SUPPORTED.items():
        if arguments.get(name) not in supported:
            raise ConversionError(
                f"{where} has an unsupported architecture: its training had {name} = {arguments[name]!r}.",
                "Llama, Qwen2, Qwen2.5 and Qwen3 are supported: dense, with RMSNorm, SwiGLU and rotary embeddings.",
            )
    try:
        heads, hidden = int(arguments["num_attention_heads"]), int(arguments["hidden_size"])
        grouped = arguments.get("group_query_attention", True)
        kv_heads = arguments.get("num_query_groups") if grouped else None
        scaled = bool(arguments.get("use_rope_scaling"))
        factor = {"factor": float(arguments.get("rope_scaling_factor") or 8.0)}
        return Architecture(
            family=_family(arguments, where, family),
            layers=int(arguments["num_layers"]),
            hidden=hidden,
            ffn=int(arguments["ffn_hidden_size"]),
            heads=heads,
            kv_heads=int(kv_heads or heads),
            head_dim=int(arguments.get("kv_channels") or hidden // heads),
            tied=not arguments.get("untie_embeddings_and_output_weights", False),
            norm_eps=float(arguments.get("norm_epsilon", arguments.get("layernorm_epsilon", 1e-5))),
            rope_theta=float(arguments.get("rotary_base") or 10_000),
            rope_scaling=_LLAMA31_SCALING | factor if scaled else {},
            max_positions=int(arguments.get("max_position_embeddings") or arguments["seq_length"]),
            vocab_size=arguments.get("vocab_size"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"The training arguments of {where} do not give its sizes: {error!r}.",
            "Pass --config with the directory of the released model.",
        ) from error


def _family(arguments: Mapping[str, Any], where: Path, family: Family | None) -> Family:
    """Return the family whose biases and norms the arguments name, or the one that was asked for if it agrees."""
    bias = bool(arguments.get("add_qkv_bias"))
    norms = bool(arguments.get("qk_layernorm"))
    if bias and norms:
        raise ConversionError(
            f"{where} has an unsupported architecture: biases (add_qkv_bias) and norms (qk_layernorm) of query and key "
            "together.",
            "Qwen2 has these biases, Qwen3 these norms, Llama neither.",
        )
    found: Family = "qwen2" if bias else "qwen3" if norms else "llama"
    if family is not None and family != found:
        raise ConversionError(
            f"{where} was trained with add_qkv_bias = {bias} and qk_layernorm = {norms}, which is {found}; "
            f"--architecture says {family}.",
            f"Pass --architecture {found}, or leave it out.",
        )
    return found


def from_config(directory: Path, family: Family | None = None) -> Architecture:
    """Return the architecture of a directory's `config.json`.

    Raises:
        ConversionError: it is another than a Llama, Qwen2 or Qwen3.
        CheckpointError: there is no such file, or it is damaged.
    """
    found = read_config(directory)["model_type"]
    if found not in FAMILIES or (family is not None and found != family):
        wanted = " or ".join(FAMILIES) if family is None else family
        raise ConversionError(
            f"The config.json of {directory} is of a {found}; {wanted} was expected.",
            "Llama, Qwen2, Qwen2.5 and Qwen3 are supported; name the directory of the model that was trained.",
        )
    config = _hugging_face(directory)
    rope = dict(config.rope_parameters)
    architecture = Architecture(
        family=found,
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        ffn=config.intermediate_size,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
        tied=config.tie_word_embeddings,
        norm_eps=config.rms_norm_eps,
        rope_theta=float(rope.pop("rope_theta")),
        rope_scaling={} if rope.get("rope_type", "default") == "default" else rope,
        max_positions=config.max_position_embeddings,
        vocab_size=config.vocab_size,
    )
    _check_config(config, directory)
    return architecture


def _hugging_face(directory: Path) -> "PretrainedConfig":
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
    except (ValueError, KeyError, OSError, TypeError, AttributeError, StrictDataclassError) as error:
        raise CheckpointError(
            f"transformers cannot read the config.json of {directory}: {error}.", "Copy it again."
        ) from error


def _check_config(config: "PretrainedConfig", directory: Path) -> None:
    """Reject variants that have weights or operations which Megatron's model of the family has not."""
    bias = config.model_type != "qwen2" and getattr(config, "attention_bias", False)
    for name, wrong in {
        "attention_bias": bias,
        "mlp_bias": getattr(config, "mlp_bias", False),
        "hidden_act": config.hidden_act != "silu",
        "use_sliding_window": getattr(config, "use_sliding_window", False),
    }.items():
        if wrong:
            raise ConversionError(
                f"The config.json of {directory} has {name} = {getattr(config, name)!r}, which is not supported.",
                "Convert a model without it.",
            )


def check_agreement(config: Architecture, arguments: Architecture, directory: Path, checkpoint: Path) -> None:
    """Reject a `config.json` that describes another model than the one that was trained.

    Raises:
        ConversionError: names the first value that differs.
    """
    for field in fields(Architecture):
        theirs, ours = getattr(config, field.name), getattr(arguments, field.name)
        if field.name in ("max_positions", "vocab_size") or _same(theirs, ours):
            continue
        raise ConversionError(
            f"The config.json of {directory} has {field.name} = {_shown(theirs)}; {checkpoint} was trained with "
            f"{_shown(ours)}.",
            "Name the directory of the model that was trained, or leave --config out.",
        )


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-6)
    return bool(one == other)


def _shown(value: Any) -> str:
    return "none" if value == {} else str(value)


def to_config(architecture: Architecture, dtype: str) -> "PretrainedConfig":
    """Return transformers' configuration of an architecture; `vocab_size` must be known."""
    from transformers import LlamaConfig, Qwen2Config, Qwen3Config

    kinds: dict[Family, type[PretrainedConfig]] = {"llama": LlamaConfig, "qwen2": Qwen2Config, "qwen3": Qwen3Config}
    rope = {"rope_type": "default", **architecture.rope_scaling, "rope_theta": architecture.rope_theta}
    return kinds[architecture.family](
        architectures=[kinds[architecture.family].__name__.replace("Config", "ForCausalLM")],
        vocab_size=architecture.vocab_size,
        hidden_size=architecture.hidden,
        intermediate_size=architecture.ffn,
        num_hidden_layers=architecture.layers,
        num_attention_heads=architecture.heads,
        num_key_value_heads=architecture.kv_heads,
        head_dim=architecture.head_dim,
        max_position_embeddings=architecture.max_positions,
        rope_parameters=rope,
        tie_word_embeddings=architecture.tied,
        rms_norm_eps=architecture.norm_eps,
        hidden_act="silu",
        dtype=dtype,
    )


def to_arguments(architecture: Architecture, dtype: "torch.dtype", padded_vocab_size: int) -> dict[str, Any]:
    """Return Megatron's training arguments of an architecture, as its checkpoints keep them.

    Raises:
        ConversionError: Megatron has no such scaling of the rotary embedding.
    """
    scaling = architecture.rope_scaling
    if scaling and _LLAMA31_SCALING | {"factor": scaling.get("factor")} != scaling:
        raise ConversionError(
            f"The rotary embedding is scaled by {dict(scaling)}; Megatron's GPT has Llama 3.1's scaling alone.",
            "Convert a model without it.",
        )
    return {
        "num_layers": architecture.layers,
        "hidden_size": architecture.hidden,
        "ffn_hidden_size": architecture.ffn,
        "num_attention_heads": architecture.heads,
        "group_query_attention": architecture.kv_heads != architecture.heads,
        "num_query_groups": architecture.kv_heads,
        "kv_channels": architecture.head_dim,
        "untie_embeddings_and_output_weights": not architecture.tied,
        "normalization": "RMSNorm",
        "norm_epsilon": architecture.norm_eps,
        "swiglu": True,
        "add_bias_linear": False,
        "add_qkv_bias": architecture.qkv_bias,
        "qk_layernorm": architecture.qk_norm,
        "position_embedding_type": "rope",
        "rotary_base": architecture.rope_theta,
        "rotary_percent": 1.0,
        "use_rope_scaling": bool(scaling),
        "rope_scaling_factor": scaling.get("factor", 8.0),
        "max_position_embeddings": architecture.max_positions,
        "seq_length": architecture.max_positions,
        "vocab_size": architecture.vocab_size,
        "padded_vocab_size": padded_vocab_size,
        "params_dtype": dtype,
        "tensor_model_parallel_size": 1,
        "pipeline_model_parallel_size": 1,
    }
