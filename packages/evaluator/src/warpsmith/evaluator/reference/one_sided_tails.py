"""Numbers that half precision rounds in one direction.

The mean of a loss over hundreds of rows divides the error of a product in half precision by the root of their number:
each operand is rounded up as often as down. If all of them are rounded down, the errors add up. In single precision
such numbers are like any others.
"""

from typing import Final

import torch

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
