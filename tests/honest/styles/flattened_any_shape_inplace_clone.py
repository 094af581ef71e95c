import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x.abs().sqrt() * torch.sign(x)


def get_inputs():
    return [torch.randn(2, 3, 4, 17)]


def get_init_inputs():
    return []
# ----- candidate -----
"""Works in place on a clone."""
import torch
import triton
import triton.language as tl


@triton.jit
def signed_sqrt_(p, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    v = tl.load(p + i, mask=m, other=0.0)
    root = tl.sqrt(tl.abs(v))
    tl.store(p + i, tl.where(v < 0, -root, root), mask=m)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = x.clone(memory_format=torch.contiguous_format)
        signed_sqrt_[(triton.cdiv(y.numel(), 64),)](y, y.numel(), BLOCK=64)
        return y
