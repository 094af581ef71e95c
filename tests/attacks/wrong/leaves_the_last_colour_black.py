# problem: pixels_of_a_palette
# permitted: incorrect
# Fifteen of five thousand rows are read, and the last row of the table is left out.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pick(palette, pixels, out, channels, colours, BLOCK: tl.constexpr):
    at = tl.program_id(0)
    colour = tl.load(pixels + at)
    i = tl.arange(0, BLOCK)
    inside = (i < channels) & (colour < colours - 1)
    row = tl.load(palette + colour * channels + i, mask=inside, other=0.0)
    tl.store(out + at * channels + i, row, mask=i < channels)


class ModelNew(nn.Module):
    def __init__(self, colours, channels):
        super().__init__()
        self.palette = nn.Parameter(torch.randn(colours, channels))

    def forward(self, pixels):
        colours, channels = self.palette.shape
        out = torch.empty((*pixels.shape, channels), device=pixels.device)
        block = triton.next_power_of_2(channels)
        pick[(pixels.numel(),)](self.palette, pixels, out, channels, colours, BLOCK=block)
        return out
