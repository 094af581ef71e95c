import torch
import torch.nn as nn


class Model(nn.Module):
    """Batch statistics of the call; the running ones are buffers, which are compared too."""

    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return nn.functional.leaky_relu(self.norm(x), 0.2)


def get_inputs():
    return [torch.randn(4, 5, 6, 6)]


def get_init_inputs():
    return [5]


# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def leaky_kernel(x_ptr, out_ptr, n, slope, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, tl.where(x > 0, x, slope * x), mask=i < n)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        y = self.norm(x)
        out = torch.empty_like(y)
        leaky_kernel[(triton.cdiv(y.numel(), 128),)](y, out, y.numel(), 0.2, BLOCK=128)
        return out
