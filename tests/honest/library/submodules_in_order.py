import torch
import torch.nn as nn


class Model(nn.Module):
    """Calls before and after a kernel: convolution, activation, pooling, classifier."""

    def __init__(self, channels, classes):
        super().__init__()
        self.conv = nn.Conv2d(3, channels, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(channels * 16, classes)

    def forward(self, x):
        y = torch.tanh(self.conv(x))
        return self.head(self.pool(y).flatten(1)) * 2.0


def get_inputs():
    return [torch.randn(2, 3, 8, 8)]


def get_init_inputs():
    return [4, 5]


# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def tanh_kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, libdevice.tanh(tl.load(x_ptr + i, mask=i < n)), mask=i < n)


@triton.jit
def double_kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, 2.0 * tl.load(x_ptr + i, mask=i < n), mask=i < n)


def apply(kernel, x):
    kernel[(triton.cdiv(x.numel(), 128),)](x, x.numel(), BLOCK=128)
    return x


class ModelNew(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        self.conv = nn.Conv2d(3, channels, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(channels * 16, classes)

    def forward(self, x):
        y = apply(tanh_kernel, self.conv(x))
        return apply(double_kernel, self.head(self.pool(y).flatten(1)))
