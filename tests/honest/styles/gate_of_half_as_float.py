import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x, g):
        return (torch.nn.functional.silu(x) * g).to(torch.float32)


def get_inputs():
    return [torch.randn(20, 64).half(), torch.randn(20, 64).half()]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def silu_mul(x, g, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i, mask=i < n, other=0.0).to(tl.float32)
    b = tl.load(g + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(o + i, a * tl.sigmoid(a) * b, mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x, g):
        o = torch.empty(x.shape, device=x.device, dtype=torch.float32)
        silu_mul[(triton.cdiv(x.numel(), 256),)](x, g, o, x.numel(), B=256)
        return o
