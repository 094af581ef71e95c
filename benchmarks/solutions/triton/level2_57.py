"""Convolution, ReLU, HardSwish: one kernel after torch's layer, in place."""

import torch.nn as nn
import triton
import triton.language as tl

BLOCK_SIZE = 2048


@triton.jit
def tail_kernel(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    x = tl.where(x < 0.0, 0.0, x)
    x = x * tl.minimum((x + 3.0) / 6.0, 1.0)
    tl.store(x_ptr + at, x, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)

    def forward(self, x):
        x = self.conv(x)
        n = x.numel()
        tail_kernel[(triton.cdiv(n, BLOCK_SIZE),)](x, n, BLOCK=BLOCK_SIZE)
        return x
