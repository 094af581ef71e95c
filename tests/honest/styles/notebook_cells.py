import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return (x - x.mean()) / x.std()


def get_inputs():
    return [torch.randn(25, 40)]


def get_init_inputs():
    return []
# ----- candidate -----
# %% [markdown]
# # Standardisation
# %%
import torch, triton
import triton.language as tl
from math import ceil
# %% first attempt, too slow
# @triton.jit
# def naive(...): ...
# %% second attempt
@triton.jit
def sums(x_ptr, s_ptr, n, B: tl.constexpr):
    acc = tl.zeros([B], tl.float32)
    for s in range(0, n, B):
        i = s + tl.arange(0, B)
        acc += tl.load(x_ptr + i, mask=i < n, other=0.)
    mean = tl.sum(acc) / n
    acc2 = tl.zeros([B], tl.float32)
    for s in range(0, n, B):
        i = s + tl.arange(0, B)
        d = tl.where(i < n, tl.load(x_ptr + i, mask=i < n, other=0.) - mean, 0.)
        acc2 += d * d
    tl.store(s_ptr, mean)
    tl.store(s_ptr + 1, tl.sqrt(tl.sum(acc2) / (n - 1)))
# %%
@triton.jit
def standardise(x_ptr, s_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y_ptr + i, (tl.load(x_ptr + i, mask=i < n) - tl.load(s_ptr)) / tl.load(s_ptr + 1), mask=i < n)
# %%
def run(x, B=256):
    stats, out = torch.empty(2, device=x.device), torch.empty_like(x)
    sums[(1,)](x, stats, x.numel(), B)
    standardise[(ceil(x.numel() / B),)](x, stats, out, x.numel(), B)
    return out
# %%
class ModelNew(torch.nn.Module):
    forward = staticmethod(run)
