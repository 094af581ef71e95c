"""Numbers that half precision rounds in one direction, and rows that keep them so when they are normalised.

The mean of a loss over hundreds of rows divides the error of a product in half precision by the root of their number:
each operand is rounded up as often as down. If all of them are rounded down, the errors add up. In single precision
such numbers are like any others.

A division by the norm of a row gives it other low bits, unless the norm is a power of two.
"""

from typing import Final

import torch

LEAST_NORMALISED: Final = 8
"""Shortest row that gets a norm: one of its numbers has other low bits than the others."""
CLEARED: Final = 1 << 15 | 1 << 12
"""The first bit that bfloat16 drops of a float32, and the first that float16 and TF32 drop: both round towards zero."""
SET: Final = 1 << 14 | 1 << 11
"""The bits after these: at least a quarter of a step is lost."""


def round_down_in_half(tensor: torch.Tensor) -> torch.Tensor:
    """Return float32 numbers that lose a quarter to half a step in half precision, at most 2^-7 of their size away.

    Zeros, denormals and numbers that are not finite stay, and so do tensors of another dtype.
    """
    if tensor.dtype != torch.float32:
        return tensor
    bits = (tensor.contiguous().view(torch.int32) & ~CLEARED) | SET
    usual = torch.isfinite(tensor) & (tensor.abs() >= torch.finfo(torch.float32).tiny)
    return torch.where(usual, bits.view(torch.float32).reshape(tensor.shape), tensor)


def with_plain_norms(tensor: torch.Tensor, *, mean: bool) -> torch.Tensor:
    """Return float32 rows of `round_down_in_half` whose norm is a power of two: scaled, with another largest number.

    Args:
        tensor: of any shape; of other dtypes, of one dimension or with short rows it is only rounded.
        mean: whether the root of the mean square is a power of two instead of that of the sum.
    """
    rounded = round_down_in_half(tensor)
    if tensor.dtype != torch.float32 or tensor.dim() < 2 or tensor.shape[-1] < LEAST_NORMALISED:
        return rounded
    wide = tensor.double()
    unit = wide.shape[-1] ** 0.5 if mean else 1.0
    norm = wide.norm(dim=-1, keepdim=True)
    wanted = torch.exp2((norm / unit).log2().round()) * unit
    made = round_down_in_half((wide * (wanted / norm)).float()).double()
    largest = made.abs().argmax(-1, keepdim=True)
    top = made.gather(-1, largest)
    square = wanted**2 - made.square().sum(-1, keepdim=True) + top**2
    made = made.scatter(-1, largest, square.clamp(min=0).sqrt() * top.sign())
    sound = torch.isfinite(made).all(-1, keepdim=True) & (square > 0) & (norm > 0)
    return torch.where(sound, made.float(), rounded)
