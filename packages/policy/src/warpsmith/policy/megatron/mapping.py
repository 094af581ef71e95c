"""Which tensor of Megatron becomes which of Hugging Face, and back."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from warpsmith.policy.errors import ConversionError
from warpsmith.policy.megatron.architecture import Architecture
from warpsmith.policy.megatron.tensors import (
    ATTENTION_NORM,
    EMBEDDING,
    FC1,
    FC2,
    FINAL_NORM,
    K_NORM,
    MLP_NORM,
    OUTPUT,
    PROJ,
    Q_NORM,
    QKV,
    Checkpoint,
    StoredTensor,
    layer_name,
)

if TYPE_CHECKING:
    import torch

    Tensors = tuple["torch.Tensor", ...]

Shape = tuple[int, ...]

HF_EMBEDDING: Final = "model.embed_tokens.weight"
HF_OUTPUT: Final = "lm_head.weight"


@dataclass(frozen=True)
class Rule:
    """One tensor of Megatron and the tensors of Hugging Face that it holds.

    Attributes:
        megatron: its name.
        shape: its shape; of the embeddings, without the rows that pad the vocabulary.
        hugging_face: names and shapes on the other side, in order.
        split: takes Megatron's tensor apart.
        join: puts it together.
    """

    megatron: str
    shape: Shape
    hugging_face: Mapping[str, Shape]
    split: "Callable[[torch.Tensor], Tensors]"
    join: "Callable[[Tensors], torch.Tensor]"

    @property
    def padded(self) -> bool:
        """Whether Megatron pads its first dimension."""
        return self.megatron in (EMBEDDING, OUTPUT)


def rules(architecture: Architecture) -> Iterator[Rule]:
    """Yield a rule for each tensor of Megatron's model, in the order of the layers; `vocab_size` must be known."""
    if architecture.vocab_size is None:
        raise ValueError("the size of the vocabulary is unknown")
    hidden, table = architecture.hidden, (architecture.vocab_size, architecture.hidden)
    yield _same(EMBEDDING, HF_EMBEDDING, table)
    for layer in range(architecture.layers):
        yield from _layer_rules(architecture, layer)
    yield _same(FINAL_NORM, "model.norm.weight", (hidden,))
    if not architecture.tied:
        yield _same(OUTPUT, HF_OUTPUT, table)


def _layer_rules(architecture: Architecture, layer: int) -> Iterator[Rule]:
    hidden, head_dim = architecture.hidden, architecture.head_dim
    width, prefix = architecture.heads * head_dim, f"model.layers.{layer}."

    def same(part: str, name: str, shape: Shape) -> Rule:
        return _same(layer_name(layer, part), prefix + name, shape)

    yield same(ATTENTION_NORM, "input_layernorm.weight", (hidden,))
    yield _qkv(architecture, layer, "weight", (hidden,))
    if architecture.qkv_bias:
        yield _qkv(architecture, layer, "bias", ())
    if architecture.qk_norm:
        yield same(Q_NORM, "self_attn.q_norm.weight", (head_dim,))
        yield same(K_NORM, "self_attn.k_norm.weight", (head_dim,))
    yield same(f"{PROJ}.weight", "self_attn.o_proj.weight", (hidden, width))
    yield same(MLP_NORM, "post_attention_layernorm.weight", (hidden,))
    yield _gated(architecture, layer)
    yield same(f"{FC2}.weight", "mlp.down_proj.weight", (hidden, architecture.ffn))


def _same(megatron: str, hugging_face: str, shape: Shape) -> Rule:
    """Return the rule of a tensor that both store the same way."""
    return Rule(megatron, shape, {hugging_face: shape}, lambda whole: (whole,), lambda parts: parts[0])


def _qkv(architecture: Architecture, layer: int, kind: str, rest: Shape) -> Rule:
    """Return the rule of query, key and value: Megatron has the rows of each group of heads together.

    A group is the query heads that share one key and value head, followed by that key and that value.
    """
    groups, head_dim = architecture.kv_heads, architecture.head_dim
    queries = architecture.heads // groups * head_dim
    rows = (queries, head_dim, head_dim)

    def split(whole: "torch.Tensor") -> "Tensors":
        import torch

        parts = torch.split(whole.reshape(groups, sum(rows), *rest), list(rows), dim=1)
        return tuple(part.reshape(-1, *rest) for part in parts)

    def join(parts: "Tensors") -> "torch.Tensor":
        import torch

        grouped = [part.reshape(groups, count, *rest) for part, count in zip(parts, rows, strict=True)]
        return torch.cat(grouped, dim=1).reshape(-1, *rest)

    prefix = f"model.layers.{layer}.self_attn."
    shapes = {f"{prefix}{name}_proj.{kind}": (groups * n, *rest) for name, n in zip("qkv", rows, strict=True)}
    return Rule(layer_name(layer, f"{QKV}.{kind}"), (groups * sum(rows), *rest), shapes, split, join)


def _gated(architecture: Architecture, layer: int) -> Rule:
    """Return the rule of the gated MLP's first layer: the gate's rows, then those of the up projection."""
    prefix, shape = f"model.layers.{layer}.mlp.", (architecture.ffn, architecture.hidden)

    def join(parts: "Tensors") -> "torch.Tensor":
        import torch

        return torch.cat(parts)

    return Rule(
        layer_name(layer, f"{FC1}.weight"),
        (2 * shape[0], shape[1]),
        {f"{prefix}gate_proj.weight": shape, f"{prefix}up_proj.weight": shape},
        lambda whole: whole.chunk(2),
        join,
    )


def check_tensors(checkpoint: Checkpoint, architecture: Architecture) -> list[Rule]:
    """Return the rules of a model after comparing them with the tensors that a checkpoint has.

    Raises:
        ConversionError: names the first tensor that is missing, unexpected or of another shape.
    """
    found, expected = checkpoint.tensors, list(rules(architecture))
    where = f"{checkpoint.directory} as a {architecture.family} of {architecture.layers} layers"
    missing = [rule.megatron for rule in expected if rule.megatron not in found]
    copy = {OUTPUT} if architecture.tied else set()  # on the last stage of a pipeline
    unexpected = sorted(set(found) - {rule.megatron for rule in expected} - copy)
    for names, what in ((missing, "missing"), (unexpected, "not part of the model")):
        if names:
            raise ConversionError(
                f"{where}: {len(names)} tensors are {what}, first {names[0]}.",
                "Check --architecture and --config; if they are right, copy every file of the checkpoint again.",
            )
    for rule in expected:
        _check_shape(rule, found[rule.megatron], where)
    return expected


def _check_shape(rule: Rule, stored: StoredTensor, where: str) -> None:
    fits = stored.shape == rule.shape
    if rule.padded:
        fits = stored.shape[1:] == rule.shape[1:] and stored.shape[0] >= rule.shape[0]
    if not fits:
        least = " or more rows" if rule.padded else ""
        raise ConversionError(
            f"{where}: {rule.megatron} has the shape {list(stored.shape)}; {list(rule.shape)}{least} was expected.",
            "Check --config and --vocab-size; if they are right, shards of the checkpoint are missing.",
        )
