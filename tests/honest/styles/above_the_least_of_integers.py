import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x - x.min()


def get_inputs():
    return [torch.randint(0, 20, (30, 25))]


def get_init_inputs():
    return []


# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def above(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n, other=1 << 30)
    tl.store(out + i, value - tl.min(value, 0), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        above[(1,)](x, out, x.numel(), BLOCK=triton.next_power_of_2(x.numel()))
        return out
