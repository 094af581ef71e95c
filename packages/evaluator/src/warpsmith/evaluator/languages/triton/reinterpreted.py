"""Tensors that `triton.reinterpret` gives another dtype: a kernel gets their memory, as a view of that dtype."""

from typing import Any, Final

import torch
from triton.runtime.jit import TensorWrapper

from warpsmith.evaluator.languages.triton.loaded_kernels import ArgumentError

_DTYPES: Final = {
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp32": torch.float32,
    "fp64": torch.float64,
    "fp8e4nv": torch.float8_e4m3fn,
    "fp8e4b8": torch.float8_e4m3fnuz,
    "fp8e5": torch.float8_e5m2,
    "fp8e5b16": torch.float8_e5m2fnuz,
    "int1": torch.bool,
} | {f"{kind}{bits}": getattr(torch, f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
"""Torch's dtypes by the names that Triton's print."""


def tensors_of(values: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a launch, by position and by name, with views in place of reinterpreted tensors.

    Raises:
        ArgumentError: torch has no such dtype or view.
    """
    return tuple(map(_tensor_of, values)), {name: _tensor_of(value) for name, value in named.items()}


def _tensor_of(value: Any) -> Any:
    if not isinstance(value, TensorWrapper):
        return value
    base, dtype = value.base, value.dtype if isinstance(value.dtype, torch.dtype) else _DTYPES.get(str(value.dtype))
    try:
        if dtype is None:
            raise TypeError("torch has no such dtype")
        # What a kernel gets is an address: the shape of memory without gaps is of no interest to it.
        return base.view(dtype) if base.element_size() == dtype.itemsize else base.view(-1).view(dtype)
    except (RuntimeError, TypeError) as error:
        raise ArgumentError(
            f"A {base.dtype} tensor of shape {tuple(base.shape)} cannot be reinterpreted as {value.dtype}: {error}.",
            "Pass x.contiguous().view(dtype) in place of triton.reinterpret(x, ...).",
        ) from error
