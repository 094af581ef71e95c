"""Which numbers a random input has: the expression that draws them, as source.

FlashInfer-trace draws every input the same way, by dtype. SOL-ExecBench chooses by name and description, since a
variance below zero or a mask of arbitrary numbers means nothing; its rules are taken up here as far as they are about
values.
"""

import re
from collections.abc import Sequence
from typing import Final

from warpsmith.evaluator.traces.schema import Tensor

FLOATS: Final = ("float64", "float32", "float16", "bfloat16")
EIGHT_BITS: Final = ("float8_e4m3fn", "float8_e5m2")
_NORM_WEIGHT: Final = re.compile(r"norm_weight|.*(_norm|layernorm)\d*_weight")
_NORM_BIAS: Final = re.compile(r"norm_bias|.*(_norm|layernorm)\d*_bias")
_WEIGHT: Final = re.compile(r"weight\d*|.*_(weights?|projs?|weight_matrix)\d*")
_POSITIVE: Final = re.compile(r"(.*_)?(rstd|std|variance|var)\d*")
_ANGLES: Final = {
    "cos": "cos", "cos_cached": "cos", "rope_cos": "cos", "sin": "sin", "sin_cached": "sin", "rope_sin": "sin",
}  # fmt: skip
_DECAYS: Final = {"A": (-1.0, -0.001), "A_log": (-5.0, -1.0), "g": (-5.0, 0.0), "A_cumsum": (-0.1, 0.0)}
_PROBABILITIES: Final = ("attn_weights", "attention_weights", "routing_weights")
_MASKS: Final = ("x_mask", "text_mask", "aspect_ratio_mask", "drop_mask", "attention_mask")


def plain(tensor: Tensor, shape: str) -> str:
    """Return the expression that draws a tensor by its dtype alone.

    Args:
        tensor: its dtype.
        shape: the source of its shape, a tuple.
    """
    dtype = tensor.dtype
    if dtype in FLOATS:
        return f"torch.randn({shape}, dtype=torch.{dtype})"
    if dtype in EIGHT_BITS:
        return f"torch.randn({shape}).clamp(-2.0, 2.0).to(torch.{dtype})"
    if dtype == "bool":
        return f"torch.randint(0, 2, {shape}).to(torch.bool)"
    low, high = (-128, 128) if dtype == "int8" else (-1024, 1024)
    return f"torch.randint({low}, {high}, {shape}, dtype=torch.{dtype})"


def by_name(name: str, tensor: Tensor, shape: str) -> str:
    """Return the expression that draws a tensor as SOL-ExecBench does: by its name and description, else by dtype."""
    if tensor.dtype not in FLOATS or tensor.shape is None:
        return plain(tensor, shape)
    return next((drawn for holds, drawn in _rules(name, tensor, tensor.shape, shape) if holds), plain(tensor, shape))


def _rules(name: str, tensor: Tensor, axes: Sequence[str], shape: str) -> list[tuple[bool, str]]:
    """Return each special way to draw a tensor, with whether it is meant; the first that is counts."""
    about, dtype = (tensor.description or "").lower(), f"torch.{tensor.dtype}"
    square = len(axes) >= 2 and axes[-1] == axes[-2]
    causal = name in ("attention_mask", "causal_mask") or ("attention mask" in about and "causal" in about)
    binary = name.endswith("_mask") and bool(re.search(r"binary|\{0, 1\}|0 or 1|1\.0 for valid", about))
    low, high = _DECAYS.get(name, (0.0, 1.0))
    decay = f"(torch.rand({shape}) * {high - low!r} + {low!r})" + (".cumsum(dim=-1)" if name == "A_cumsum" else "")
    filled = f"torch.full({shape}, torch.finfo({dtype}).min, dtype={dtype})"
    return [
        (bool(_NORM_WEIGHT.fullmatch(name)), f"torch.ones({shape}, dtype={dtype})"),
        (bool(_NORM_BIAS.fullmatch(name)), f"torch.zeros({shape}, dtype={dtype})"),
        (square and causal, f"torch.triu({filled}, diagonal=1)"),
        (name in _MASKS or binary, f"torch.randint(0, 2, {shape}).to({dtype})"),
        (name in _ANGLES, f"torch.{_ANGLES.get(name)}(torch.randn({shape})).to({dtype})"),
        (bool(_POSITIVE.fullmatch(name)), f"torch.randn({shape}, dtype={dtype}).abs() + 0.1"),
        (name in _DECAYS, f"{decay}.to({dtype})"),
        (
            name in _PROBABILITIES or ("softmax" in about and "output" in about),
            f"torch.softmax(torch.randn({shape}), dim=-1).to({dtype})",
        ),
        (
            len(axes) >= 2 and bool(_WEIGHT.fullmatch(name)),
            f"torch.randn({shape}, dtype={dtype}) / {shape}[-1] ** 0.5",
        ),
    ]
