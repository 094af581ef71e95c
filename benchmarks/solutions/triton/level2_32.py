"""Convolution, scaling, minimum over the channels: then a loop over channels for each block of positions."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

BLOCK_SIZE = 256


@triton.jit
def tail_kernel(x_ptr, out_ptr, channels, positions, factor, BLOCK: tl.constexpr):
    sample = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < positions
    found = tl.full((BLOCK,), float("inf"), tl.float32)
    for channel in range(channels):
        x = tl.load(x_ptr + (sample * channels + channel) * positions + at, mask=inside, other=0.0)
        found = tl.minimum(found, x * factor)
    tl.store(out_ptr + sample * positions + at, found, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, scale_factor):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.scale_factor = scale_factor

    def forward(self, x):
        x = self.conv(x)
        samples, channels, height, width = x.shape
        out = torch.empty(samples, 1, height, width, device=x.device)
        grid = (samples, triton.cdiv(height * width, BLOCK_SIZE))
        tail_kernel[grid](x, out, channels, height * width, self.scale_factor, BLOCK=BLOCK_SIZE)
        return out
