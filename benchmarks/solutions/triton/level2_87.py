"""Convolution, two subtractions, Mish: one kernel after torch's layer, in place."""

import torch.nn as nn
import triton
import triton.language as tl

BLOCK_SIZE = 2048


@triton.jit
def tail_kernel(x_ptr, n, first, second, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    x = x - first - second
    grown = tl.exp(tl.minimum(x, 20.0))
    x = x * (grown * (grown + 2.0) / (grown * (grown + 2.0) + 2.0))
    tl.store(x_ptr + at, x, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, subtract_value_1, subtract_value_2):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.first, self.second = subtract_value_1, subtract_value_2

    def forward(self, x):
        x = self.conv(x)
        n = x.numel()
        tail_kernel[(triton.cdiv(n, BLOCK_SIZE),)](x, n, self.first, self.second, BLOCK=BLOCK_SIZE)
        return x
