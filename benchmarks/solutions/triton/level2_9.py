"""Matrix product, subtraction, multiplication, ReLU: one kernel after torch's layer, in place."""

import torch.nn as nn
import triton
import triton.language as tl

BLOCK_SIZE = 2048


@triton.jit
def tail_kernel(x_ptr, n, less, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    x = (x - less) * factor
    x = tl.where(x < 0.0, 0.0, x)
    tl.store(x_ptr + at, x, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, subtract_value, multiply_value):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.subtract_value, self.multiply_value = subtract_value, multiply_value

    def forward(self, x):
        x = self.linear(x)
        n = x.numel()
        tail_kernel[(triton.cdiv(n, BLOCK_SIZE),)](x, n, self.subtract_value, self.multiply_value, BLOCK=BLOCK_SIZE)
        return x
