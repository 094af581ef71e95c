import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.linear = nn.Linear(inside, outside)

    def forward(self, x):
        return F.gelu(self.linear(x))


def get_inputs():
    return [torch.randn(2, 7, 24)]


def get_init_inputs():
    return [24, 33]


# ----- candidate -----
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def gelu_in_place(y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, 0.5 * y * (1.0 + libdevice.erf(y * 0.7071067811865476)), mask=i < n)


class ModelNew(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.linear = nn.Linear(inside, outside)

    def forward(self, x):
        y = F.linear(x, self.linear.weight, self.linear.bias)
        gelu_in_place[(triton.cdiv(y.numel(), 128),)](y, y.numel(), BLOCK=128)
        return y
