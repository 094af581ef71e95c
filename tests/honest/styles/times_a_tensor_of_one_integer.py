import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, times):
        return x * times


def get_inputs():
    return [torch.randn(9, 30), torch.tensor(2)]


def get_init_inputs():
    return []


# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def multiply(x, times, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n, other=0)
    tl.store(out + i, value * tl.load(times), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, times):
        out = torch.empty_like(x)
        multiply[(triton.cdiv(x.numel(), 128),)](x, times, out, x.numel(), BLOCK=128)
        return out
