"""Matrix product, scaling, and the product once more: one kernel after torch's layer, in place."""

import torch.nn as nn
import triton
import triton.language as tl

BLOCK_SIZE = 2048


@triton.jit
def tail_kernel(x_ptr, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    x = x * factor + x
    tl.store(x_ptr + at, x, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, scaling_factor):
        super().__init__()
        self.matmul = nn.Linear(in_features, out_features)
        self.scaling_factor = scaling_factor

    def forward(self, x):
        x = self.matmul(x)
        n = x.numel()
        tail_kernel[(triton.cdiv(n, BLOCK_SIZE),)](x, n, self.scaling_factor, BLOCK=BLOCK_SIZE)
        return x
