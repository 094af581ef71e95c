"""Matrix product, Swish, halving, clipping, tanh: one kernel after torch's layer, in place."""

import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice

BLOCK_SIZE = 2048


@triton.jit
def tail_kernel(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    x = x * tl.sigmoid(x) * 0.5
    x = libdevice.tanh(tl.minimum(tl.maximum(x, -1.0), 1.0))
    tl.store(x_ptr + at, x, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, bias=True):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features, bias=bias)

    def forward(self, x):
        x = self.gemm(x)
        n = x.numel()
        tail_kernel[(triton.cdiv(n, BLOCK_SIZE),)](x, n, BLOCK=BLOCK_SIZE)
        return x
