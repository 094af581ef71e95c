import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x - torch.roll(x, shifts=1, dims=-1)


def get_inputs():
    return [torch.randn(7, 36)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def subtract(a, b, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(a + i, mask=i < n) - tl.load(b + i, mask=i < n), mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        subtract[(triton.cdiv(x.numel(), 64),)](x, torch.roll(x, 1, -1), y, x.numel(), BLOCK=64)
        return y
