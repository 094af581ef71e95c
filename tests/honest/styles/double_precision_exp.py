import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.exp(x) * 0.5


def get_inputs():
    return [torch.randn(60, dtype=torch.float64)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def dexp(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, libdevice.exp(tl.load(x + i, mask=i < n, other=0.0)) * 0.5, mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        dexp[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), BLOCK=32)
        return y
