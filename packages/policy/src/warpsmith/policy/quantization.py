"""Frozen weights in 4 bits (NF4, arXiv 2305.14314), by bitsandbytes."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from warpsmith.policy.errors import QuantizationError
from warpsmith.records.wording import installing

if TYPE_CHECKING:
    import torch
    from transformers import BitsAndBytesConfig


def check_quantization() -> None:
    """Check that 4-bit weights can be used.

    Raises:
        QuantizationError: bitsandbytes or accelerate is not installed, or torch sees no NVIDIA GPU.
    """
    import torch

    # find_spec only: importing bitsandbytes takes seconds.
    missing = [name for name in ("bitsandbytes", "accelerate") if find_spec(name) is None]
    if missing:
        raise QuantizationError(
            f"policy.lora.bits = 4 needs {' and '.join(missing)}, which is not installed.",
            f"{installing('policy', 'qlora')} Or remove policy.lora.bits.",
        )
    if not torch.cuda.is_available():
        raise QuantizationError(
            "policy.lora.bits = 4 needs an NVIDIA GPU, and torch sees none.",
            "Run it on a machine with one, or remove policy.lora.bits.",
        )


def quantization_config(compute_dtype: "torch.dtype") -> "BitsAndBytesConfig":
    """Return transformers' configuration of NF4 with quantized constants, as in QLoRA."""
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=compute_dtype,
    )
