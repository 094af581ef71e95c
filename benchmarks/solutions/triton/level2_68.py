"""Matrix product, minimum with a number and its subtraction: torch's layer, and one kernel in place."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

BLOCK_SIZE = 2048


@triton.jit
def tail_kernel(x_ptr, constant_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    constant = tl.load(constant_ptr)
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    tl.store(x_ptr + at, tl.minimum(x, constant) - constant, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, constant):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.constant = nn.Parameter(torch.tensor(constant))

    def forward(self, x):
        x = self.linear(x)
        n = x.numel()
        tail_kernel[(triton.cdiv(n, BLOCK_SIZE),)](x, self.constant, n, BLOCK=BLOCK_SIZE)
        return x
