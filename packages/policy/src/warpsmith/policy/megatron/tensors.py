"""The tensors of a checkpoint under one set of names, whatever its layout and however it was sharded.

Names are those of Megatron-Core's distributed checkpoints, with the layer's number:
`decoder.layers.3.self_attention.linear_qkv.weight`. Shapes are those of a model on one rank.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import torch

EMBEDDING: Final = "embedding.word_embeddings.weight"
OUTPUT: Final = "output_layer.weight"
FINAL_NORM: Final = "decoder.final_layernorm.weight"
LAYERS: Final = "decoder.layers."
WRAPPER: Final = "module."
"""What mixed precision and NeMo put before each name."""

QKV, PROJ = "self_attention.linear_qkv", "self_attention.linear_proj"
FC1, FC2 = "mlp.linear_fc1", "mlp.linear_fc2"
ATTENTION_NORM, MLP_NORM = f"{QKV}.layer_norm_weight", f"{FC1}.layer_norm_weight"
Q_NORM, K_NORM = "self_attention.q_layernorm.weight", "self_attention.k_layernorm.weight"

# Without Transformer Engine the norms are separate modules; distributed checkpoints name them as with it.
_LOCAL_NORMS: Final = {"input_layernorm.weight": ATTENTION_NORM, "pre_mlp_layernorm.weight": MLP_NORM}
_LAYER: Final = re.compile(r"decoder\.layers\.(\d+)\.(.+)")
_NO_WEIGHTS: Final = re.compile(r"(^|\.)(_extra_state|rotary_pos_emb\.inv_freq)(\d*$|/)")


@dataclass(frozen=True)
class StoredTensor:
    """One tensor of a checkpoint, not read yet.

    Attributes:
        shape: its whole shape, shards merged.
        dtype: its dtype.
        read: returns it, in memory.
    """

    shape: tuple[int, ...]
    dtype: "torch.dtype"
    read: Callable[[], "torch.Tensor"]

    @property
    def bytes(self) -> int:
        """Its size in memory."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class Checkpoint:
    """What a reader found in a checkpoint.

    Attributes:
        directory: where its files are.
        tensors: the model's tensors by name.
        arguments: the arguments of the training that wrote it; empty if it holds none.
    """

    directory: Path
    tensors: Mapping[str, StoredTensor]
    arguments: Mapping[str, Any]


def layer_name(layer: int, part: str) -> str:
    """Return the name of a layer's tensor."""
    return f"{LAYERS}{layer}.{_LOCAL_NORMS.get(part, part)}"


def layer_part(name: str) -> tuple[int, str] | None:
    """Return the number of the layer and the rest of the name; None for a tensor of no layer."""
    match = _LAYER.fullmatch(name)
    return None if match is None else (int(match[1]), match[2])


def holds_weights(name: str) -> bool:
    """Whether an entry of a model is a weight, not the state of a kernel or a table that is recomputed."""
    return _NO_WEIGHTS.search(name) is None
