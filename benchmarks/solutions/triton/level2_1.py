"""Convolution, ReLU, a bias: one kernel after torch's layer, in place."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

BLOCK_SIZE = 2048


@triton.jit
def tail_kernel(x_ptr, bias_ptr, channels, positions, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < positions
    place = x_ptr + plane.to(tl.int64) * positions + at
    bias = tl.load(bias_ptr + plane % channels)
    x = tl.load(place, mask=inside, other=0.0)
    x = tl.where(x < 0.0, 0.0, x) + bias
    tl.store(place, x, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, bias_shape):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x):
        x = self.conv(x)
        samples, channels = x.shape[:2]
        positions = x[0, 0].numel()
        grid = (samples * channels, triton.cdiv(positions, BLOCK_SIZE))
        tail_kernel[grid](x, self.bias, channels, positions, BLOCK=BLOCK_SIZE)
        return x
