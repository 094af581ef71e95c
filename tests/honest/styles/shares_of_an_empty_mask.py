import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, chosen):
        return x * chosen / chosen.sum().clamp(min=1)


def get_inputs():
    return [torch.randn(6, 50), torch.rand(6, 50) < 0.3]


def get_init_inputs():
    return []


# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def share(x, chosen, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n, other=0.0)
    taken = tl.load(chosen + i, mask=i < n, other=0).to(tl.float32)
    tl.store(out + i, value * taken / tl.maximum(tl.sum(taken, 0), 1.0), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, chosen):
        out = torch.empty_like(x)
        share[(1,)](x, chosen, out, x.numel(), BLOCK=triton.next_power_of_2(x.numel()))
        return out
