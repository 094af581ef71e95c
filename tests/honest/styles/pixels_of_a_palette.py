import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, colours, channels):
        super().__init__()
        self.palette = nn.Parameter(torch.randn(colours, channels))

    def forward(self, pixels):
        return self.palette[pixels]


def get_inputs():
    return [torch.randint(0, 5000, (3, 5))]


def get_init_inputs():
    return [5000, 12]


# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pick(palette, pixels, out, channels, colours, BLOCK: tl.constexpr):
    at = tl.program_id(0)
    colour = tl.load(pixels + at)
    i = tl.arange(0, BLOCK)
    inside = (i < channels)
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
