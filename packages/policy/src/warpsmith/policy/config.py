"""Configuration of a policy. Importable without torch."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

NEW = "new"
"""Starting point of an adapter that was not trained before."""
AdapterName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
DTypeName = Literal["float32", "bfloat16", "float16"]
AttentionName = Literal["sdpa", "eager", "varlen", "flash_attention_2", "flash_attention_3"]
KernelsName = Literal["torch", "liger"]


class _Settings(BaseModel):
    """Rejects unknown keys, so that a misspelt key is an error and not a silent default; numbers are finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class TinySettings(_Settings):
    """Sizes of the small Qwen3-architecture decoder of `tiny.build_tiny`.

    `head_dim` is `hidden / heads`; vLLM's CPU attention must have kernels for it.
    """

    vocab_size: Annotated[int, Field(ge=260)] = 1024
    layers: Annotated[int, Field(ge=1)] = 4
    hidden: Annotated[int, Field(ge=32)] = 192
    heads: Annotated[int, Field(ge=1)] = 6
    kv_heads: Annotated[int, Field(ge=1)] = 2
    max_position_embeddings: Annotated[int, Field(ge=64)] = 4096
    seed: Annotated[int, Field(ge=0)] = 0

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.hidden // self.heads

    @property
    def intermediate(self) -> int:
        """Width of the gated MLP: 8/3 of `hidden`, rounded up to a multiple of 64."""
        return -(-self.hidden * 8 // 3 // 64) * 64

    @model_validator(mode="after")
    def _heads_fit(self) -> "TinySettings":
        if self.hidden % self.heads or self.head_dim not in VLLM_CPU_HEAD_DIMS:
            widths = ", ".join(map(str, VLLM_CPU_HEAD_DIMS))
            raise ValueError(f"hidden / heads is {self.hidden / self.heads:g}; it must be one of {widths}")
        if self.heads % self.kv_heads:
            raise ValueError(f"heads ({self.heads}) must be a multiple of kv_heads ({self.kv_heads})")
        return self


VLLM_CPU_HEAD_DIMS = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256)
"""Head widths that vLLM's CPU attention supports (vLLM 0.32, `cpu_attn.py`)."""


class LoraSettings(_Settings):
    """Low-rank adapters (Hu et al., arXiv 2106.09685): W + (alpha / rank) B A on each chosen linear layer."""

    rank: int = Field(default=16, ge=1, description="Rank of the product B A.")
    alpha: float = Field(default=32.0, gt=0, description="The product B A is multiplied by alpha / rank.")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="Dropout on the adapters' inputs during training.")
    target_modules: tuple[str, ...] = Field(
        default=("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
        min_length=1,
        description="Linear layers that get an adapter, by the last part of their names.",
    )
    bits: Literal[4] | None = Field(
        default=None,
        description="4 keeps the frozen weights in 4-bit NF4 (QLoRA, arXiv 2305.14314), which needs an NVIDIA GPU and "
        "bitsandbytes; when not given they have policy.dtype.",
    )


class PolicyConfig(_Settings):
    """What to load as the policy, and how."""

    path: Path = Field(
        description="A Hugging Face directory, or the name of a model on the hub, for example `Qwen/Qwen3-8B`."
    )
    revision: str | None = Field(
        default=None,
        min_length=1,
        description="Branch, tag or commit of a hub name; when not given it is the default branch. A run keeps the "
        "commit that it began with.",
    )
    dtype: DTypeName = Field(default="bfloat16", description="Dtype of the weights in memory.")
    attention: AttentionName = Field(
        default="sdpa",
        description="Attention by transformers' name, or `varlen`: torch's for packed rows.",
    )
    kernels: KernelsName = Field(
        default="torch",
        description="Kernels of norms, rotary embedding and gated MLP: torch's, or liger-kernel's, which need a GPU.",
    )
    chat_template: str | None = Field(
        default=None,
        min_length=1,
        description="Chat template for a model without one: `qwen`, `llama3`, `chatml`, or a file. It replaces the "
        "model's own; exported models carry it.",
    )
    template_kwargs: dict[str, Any] = Field(
        default_factory=dict, description="Variables of the chat template, for example `{ enable_thinking = false }`."
    )
    gradient_checkpointing: bool = Field(
        default=False, description="Recompute activations in the backward pass instead of keeping them."
    )
    lora: LoraSettings | None = Field(
        default=None, description="Train only adapters; without this table all weights are trained."
    )
    adapters: dict[AdapterName, str] = Field(
        default_factory=dict,
        description="With [policy.lora]: an adapter for each agent, by its name; where it starts, a peft directory "
        "that was trained on policy.path, or `new`. One adapter for all when empty.",
    )

    @model_validator(mode="after")
    def _named_adapters_have_settings(self) -> "PolicyConfig":
        if self.adapters and self.lora is None:
            raise ValueError("adapters are read only with [policy.lora]; add that table or remove the key")
        if len(self.adapters) == 1:
            raise ValueError(
                f"adapters names only {next(iter(self.adapters))}; name one for each agent, or remove the key for one "
                "adapter that all agents share"
            )
        return self
