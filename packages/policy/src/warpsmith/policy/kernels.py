"""The body of a model computed by liger-kernel's Triton kernels: `kernels = "liger"`.

RMSNorm, rotary embedding and SiLU times gate are each a chain of elementwise operations in transformers' modules, and
one kernel here. Nothing else of liger-kernel is used: its cross entropies replace a model's forward, which `logprobs`
needs unchanged.

Only the given model is changed. liger-kernel also patches its classes into transformers' modules, where they would
affect every model loaded later; those patches are reverted.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from warpsmith.policy.errors import KernelsError
from warpsmith.records.wording import installing

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel

LIGER: Final = "liger"
MODEL_TYPES: Final = ("llama", "mistral", "qwen2", "qwen3")
"""Model types that a test compares with transformers' own modules. liger-kernel has more, each with its own rules."""

_PARTS = {
    "rms_norm": True, "swiglu": True, "cross_entropy": False, "fused_linear_cross_entropy": False,
    # Done by `_rotate_by` instead: liger-kernel can only change all models of the type.
    "rope": False,
}  # fmt: skip
_ROTATE = "apply_rotary_pos_emb"
_OTHERWISE = 'or set policy.kernels = "torch".'


def check_kernels(config: Mapping[str, Any]) -> None:
    """Reject liger-kernel if it cannot run, or would compute something other than the model; loads no weights.

    Args:
        config: the model's config.json.

    Raises:
        KernelsError: liger-kernel is not installed, torch sees no GPU, or the kernels do not support the model's type
            or activation.
    """
    kind, activation = config.get("model_type"), config.get("hidden_act", "silu")
    if kind not in MODEL_TYPES:
        known = ", ".join(MODEL_TYPES)
        raise KernelsError(
            f'policy.kernels = "liger" supports the model types {known}; this model has the type {kind}.',
            'Set policy.kernels = "torch".',
        )
    if activation not in ("silu", "swish"):
        # liger-kernel would silently compute SiLU anyway.
        raise KernelsError(
            f'policy.kernels = "liger" supports SiLU in the MLP; this model uses {activation}.',
            'Set policy.kernels = "torch".',
        )
    # find_spec only: importing liger-kernel takes seconds.
    if find_spec("liger_kernel") is None:
        raise KernelsError(
            'policy.kernels = "liger" needs liger-kernel, which is not installed.',
            f'{installing("policy", "liger")} Or set policy.kernels = "torch".',
        )
    if not triton_runs():
        raise KernelsError(
            'policy.kernels = "liger" runs Triton kernels, which need a GPU, and torch sees none.',
            f"Run it on a machine with one, {_OTHERWISE}",
        )


def triton_runs() -> bool:
    """Whether there is a GPU or, as in tests, Triton's interpreter."""
    import torch

    return torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1"


def apply_liger(model: "PreTrainedModel") -> None:
    """Make a model compute its norms, rotary embeddings and gated MLPs with liger-kernel, in place.

    Weights, their names and the model's own forward stay unchanged. Adapters can be attached afterwards, to the linear
    layers. A backward pass overwrites what the forward pass saved, so it can run only once per graph.

    Args:
        model: a bare causal language model on any device; it must be on a GPU when it is called.

    Raises:
        KernelsError: as `check_kernels`, or this version of transformers implements rotation in an unknown way.
    """
    check_kernels(model.config.to_dict())
    from liger_kernel.transformers.monkey_patch import MODEL_TYPE_TO_APPLY_LIGER_FN

    with _put_back(sys.modules[type(model).__module__]):
        MODEL_TYPE_TO_APPLY_LIGER_FN[model.config.model_type](model=model, **_PARTS)
    _rotate_by([layer.self_attn for layer in model.get_decoder().layers])


@contextmanager
def _put_back(module: ModuleType) -> Iterator[None]:
    """Undo what the block changes in a Python module."""
    before = dict(vars(module))
    try:
        yield
    finally:
        vars(module).update(before)


def _rotate_by(attentions: "list[nn.Module]") -> None:
    """Make these modules, all of one class, use liger-kernel's function instead of transformers' own.

    The function is a global name in an attention's forward, so each module gets that forward with other globals.
    """
    plain = type(attentions[0]).forward
    if not isinstance(plain, FunctionType) or _ROTATE not in plain.__code__.co_names:
        raise KernelsError(
            f'policy.kernels = "liger": {type(attentions[0]).__name__} of this transformers calls no {_ROTATE}.',
            f"Install a tested version of transformers (5.16 to 5.19), {_OTHERWISE}",
        )
    there = {**plain.__globals__, _ROTATE: _rotate}
    forward = FunctionType(plain.__code__, there, plain.__name__, plain.__defaults__, plain.__closure__)
    forward.__kwdefaults__ = plain.__kwdefaults__
    for attention in attentions:
        attention.forward = MethodType(forward, attention)


def _rotate(query_BHTD: "Tensor", key_BGTD: "Tensor", cos_BTD: "Tensor", sin_BTD: "Tensor") -> "tuple[Tensor, Tensor]":
    """Rotate queries and keys, in place if their memory layout is [B, T, H, D]."""
    from liger_kernel.ops import LigerRopeFunction

    query_BHTD, key_BGTD = LigerRopeFunction.apply(query_BHTD, key_BGTD, cos_BTD, sin_BTD)
    return query_BHTD, key_BGTD
