# problem: add
# Names that depend on versions, aliases, flags, metadata, options of the decorator, and a kernel in the class.
import operator

import torch
import torch.nn as nn

try:
    import triton
    import triton.language as tl

    HAS_TRITON = True
except ImportError:
    HAS_TRITON = False

try:
    from triton.language.math import nothing as half
except ImportError:
    from triton.language import fma as half

__all__ = ["ModelNew"]
load, Constexpr = tl.load, tl.constexpr
SIZES = {"block": 1 << 8}
BLOCK = tl.constexpr(SIZES["block"] * 2)
HALF = tl.constexpr((2 / 8) ** 0.5)


def newer_than(version, sign=operator.ge):
    return sign(triton.__version__, version)


if HAS_TRITON and newer_than("2.0"):

    @triton.jit
    def pair(left: tl.tensor, right: "tl.tensor") -> tuple[tl.tensor, tl.tensor]:
        """Both."""
        return HALF * left, HALF * right


class ModelNew(nn.Module):
    size: int = 512

    @staticmethod
    @triton.jit(do_not_specialize=["input"], debug=False, repr=lambda found: "add")
    def add_kernel(x_ptr: torch.Tensor, y_ptr, out_ptr, input, type: Constexpr = 2.0):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < input
        left, right = pair(load(x_ptr + offsets, mask=mask, other=0.0), load(y_ptr + offsets, mask=mask, other=0.0))
        tl.store(out_ptr + offsets, half(type, left, type * right), mask=mask)

    def forward(self, x, y):
        out, n = torch.empty_like(x), x.numel()
        self.add_kernel[(triton.cdiv(n, self.size),)](x, y, out, n)
        return out
