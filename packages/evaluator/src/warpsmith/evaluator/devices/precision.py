"""The precision of torch's own float32 products: exact float32, or TF32 on chips that have it."""

from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from warpsmith.evaluator.config import Precision

TF32_OPERATORS: Final = (
    "aten::mm",
    "aten::bmm",
    "aten::addmm",
    "aten::baddbmm",
    "aten::addbmm",
    "aten::addmv",
    "aten::mv",
    "aten::linear",
    "aten::convolution",
    "aten::_convolution",
    "aten::cudnn_convolution",
    "aten::miopen_rnn",
    "aten::_cudnn_rnn",
    "aten::_scaled_dot_product",
    "aten::_efficient_attention",
)
"""Prefixes of the names of operators that run in TF32 if torch is allowed to."""


def apply(precision: Precision) -> None:
    """Set torch's switches for products and convolutions; a foreign module can have changed them."""
    allowed = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed
    # Accumulate half-precision products in single precision, as Triton does.
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False


class ProductFinder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes whether an operator ran that can use TF32."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.found = self.found or func.name().startswith(TF32_OPERATORS)
        return func(*args, **(kwargs or {}))
