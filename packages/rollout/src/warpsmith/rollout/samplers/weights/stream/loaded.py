"""Where a model of vLLM's keeps the tensors of a checkpoint after loading, as far as that is known."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from warpsmith.rollout.samplers.weights.payload import TensorEntry

if TYPE_CHECKING:
    from torch import Tensor, nn


def loaded_parts(model: "nn.Module", entries: Sequence[TensorEntry]) -> "list[tuple[TensorEntry, Tensor]]":
    """Return the tensors whose place in the model is known, each with that part of a parameter.

    A tensor is the parameter of its own name, or the leading rows of one that vLLM padded; or it is a block of rows of
    a fused one, such as `qkv_proj`, whose parts the model itself names in their order. For one worker and parameters
    that are not quantized. Whatever has another dtype or shape (a CPU packs its matrices) is left out.
    """
    parameters = dict(model.named_parameters())
    fused: Mapping[str, Sequence[str]] = getattr(model, "packed_modules_mapping", None) or {}
    by_name = {entry.name: entry for entry in entries}
    found = []
    for name, parameter in parameters.items():
        parts = [by_name[part] for part in _parts_of(name, fused) if part in by_name]
        found += _rows_of(parameter, parts)
    return found


def _parts_of(name: str, fused: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the checkpoint's names of what a parameter is made of, in order."""
    owner, _, kind = name.rpartition(".")
    layer, _, last = owner.rpartition(".")
    return [f"{layer}.{part}.{kind}" for part in fused[last]] if last in fused else [name]


def _rows_of(parameter: "Tensor", parts: Sequence[TensorEntry]) -> "list[tuple[TensorEntry, Tensor]]":
    alike = (
        parts
        and parameter.ndim > 0
        and all(
            str(parameter.dtype) == f"torch.{entry.dtype}"
            and len(entry.shape) == parameter.ndim
            and tuple(parameter.shape[1:]) == entry.shape[1:]
            for entry in parts
        )
    )
    if not alike:
        return []
    rows = sum(entry.shape[0] for entry in parts)
    # Padding is behind a single tensor; between several it would be somewhere else.
    if rows != parameter.shape[0] and not (len(parts) == 1 and rows < parameter.shape[0]):
        return []
    found, begin = [], 0
    for entry in parts:
        found.append((entry, parameter[begin : begin + entry.shape[0]]))
        begin += entry.shape[0]
    return found
