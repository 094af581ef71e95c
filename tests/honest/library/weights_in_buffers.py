import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, taps):
        super().__init__()
        self.register_buffer("filter", torch.randn(1, 1, taps))

    def forward(self, x):
        return F.conv1d(x, self.filter, padding=self.filter.shape[-1] // 2).abs()


def get_inputs():
    return [torch.randn(3, 1, 50)]


def get_init_inputs():
    return [5]


# ----- candidate -----
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def absolute(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.abs(tl.load(x_ptr + i, mask=i < n)), mask=i < n)


class ModelNew(nn.Module):
    def __init__(self, taps):
        super().__init__()
        self.register_buffer("filter", torch.randn(1, 1, taps))

    def forward(self, x):
        y = F.conv1d(x, self.filter, padding=self.filter.shape[-1] // 2)
        out = torch.empty_like(y)
        absolute[(triton.cdiv(y.numel(), 64),)](y, out, y.numel(), BLOCK=64)
        return out
