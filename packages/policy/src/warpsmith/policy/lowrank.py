"""Adapters inside a model: which layers have one, their sum with the weight, and the model without them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from warpsmith.policy.errors import AdapterError

if TYPE_CHECKING:
    from torch import Tensor, nn

ADAPTER = "default"
"""peft's name for a model's only adapter here."""

IN_PEFT = "base_model.model."
"""peft's prefix of layer names in its files."""

_BASE, _FACTORS = ".base_layer.", (".lora_A.", ".lora_B.")


def layers(model: "nn.Module") -> dict[str, Any]:
    """Return the layers that have an adapter (peft's `LoraLayer`), by their names without one."""
    from peft.tuners.lora import LoraLayer

    return {name: module for name, module in model.named_modules() if isinstance(module, LoraLayer)}


def check_layers(model: "nn.Module") -> None:
    """Reject adapters on anything other than linear layers within the blocks.

    The output projection is never called on its hidden states here, and an embedding has no W to add B A to.

    Raises:
        AdapterError: names the layer.
    """
    from torch.nn import Linear

    for name, layer in layers(model).items():
        if not isinstance(layer.get_base_layer(), Linear) or name.rpartition(".")[2] == "lm_head":
            raise AdapterError(
                f"{name} is an embedding, the output layer, or not a linear layer; it cannot have an adapter.",
                "Name linear layers of the blocks in target_modules, such as q_proj or down_proj.",
            )


def is_factor(name: str) -> bool:
    """Whether a parameter of this name is a factor of an adapter."""
    return any(part in name for part in _FACTORS)


def adapter_of(name: str) -> str | None:
    """Return which adapter a factor of this name belongs to; None for any other parameter."""
    if not is_factor(name):
        return None
    return name.rpartition(".")[0].rpartition(".")[2]


def file_name(name: str, adapter: str = ADAPTER) -> str:
    """Return the name in peft's files of a factor of an adapter."""
    return IN_PEFT + name.replace(f".{adapter}.", ".")


def select(model: "nn.Module", adapter: str) -> None:
    """Let a model compute with one of its adapters from now on; all of them stay trainable."""
    with _same_gradients(model):
        for layer in layers(model).values():
            layer.set_adapter(adapter)


@contextmanager
def _same_gradients(model: "nn.Module") -> Iterator[None]:
    """Undo what peft does to `requires_grad` inside the block: an optimizer knows the parameters by then."""
    before = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    try:
        yield
    finally:
        for parameter, required in before:
            parameter.requires_grad_(required)


def base_name(name: str) -> str:
    """Return a weight's name in the model without adapters."""
    return name.replace(_BASE, ".")


def merged_weight(layer: Any, adapter: str = ADAPTER) -> "Tensor":
    """Return W + (alpha / rank) B A of a layer and one of its adapters, in W's dtype; the layer is unchanged.

    The sum is computed in fp32. A 4-bit W is dequantised first. Under ZeRO stage 3 all three must be gathered.
    """
    import torch

    with torch.no_grad():
        weight = whole_weight(layer.get_base_layer().weight)
        first, second = layer.lora_A[adapter].weight, layer.lora_B[adapter].weight
        product: Tensor = second.float() @ first.float()
        scale: float = layer.scaling[adapter]
        return (weight.float() + scale * product).to(weight.dtype)


def whole_weight(weight: "nn.Parameter") -> "Tensor":
    """Return a weight; for a 4-bit one (bitsandbytes' `Params4bit`) the dequantised values."""
    if type(weight).__name__ != "Params4bit":
        return weight.detach()
    from peft.utils.integrations import dequantize_bnb_weight

    whole: Tensor = dequantize_bnb_weight(weight)
    return whole.detach()


@contextmanager
def disabled(model: "nn.Module") -> Iterator[None]:
    """Make a model compute without its adapters inside the block."""
    adapted = list(layers(model).values())
    with _same_gradients(model):
        for layer in adapted:
            layer.enable_adapters(False)
        try:
            yield
        finally:
            for layer in adapted:
                layer.enable_adapters(True)
