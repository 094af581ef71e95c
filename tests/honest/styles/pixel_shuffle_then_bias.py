import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, r, c):
        super().__init__()
        self.shuffle = nn.PixelShuffle(r)
        self.bias = nn.Parameter(torch.randn(c, 1, 1))

    def forward(self, x):
        return torch.relu(self.shuffle(x) + self.bias)


def get_inputs():
    return [torch.randn(2, 12, 5, 6)]


def get_init_inputs():
    return [2, 3]
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bias_relu(x, b, y, C, S, BLOCK: tl.constexpr):
    nc = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + nc * S + i, mask=i < S) + tl.load(b + nc % C)
    tl.store(y + nc * S + i, tl.maximum(v, 0.0), mask=i < S)


class ModelNew(nn.Module):
    def __init__(self, r, c):
        super().__init__()
        self.shuffle = nn.PixelShuffle(r)
        self.bias = nn.Parameter(torch.randn(c, 1, 1))

    def forward(self, x):
        x = self.shuffle(x).contiguous()
        n, c, h, w = x.shape
        y = torch.empty_like(x)
        bias_relu[(n * c,)](x, self.bias, y, c, h * w, BLOCK=triton.next_power_of_2(h * w))
        return y
