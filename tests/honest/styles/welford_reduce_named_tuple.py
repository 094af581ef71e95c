import torch
import torch.nn as nn
import torch.nn.functional as F
class Model(nn.Module):
    def forward(self, x): return (x.mean(-1), x.var(-1))
def get_inputs(): return [torch.randn(8, 70)]
def get_init_inputs(): return []
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl

from typing import NamedTuple
class Welford(NamedTuple):
    mean: tl.tensor
    m2: tl.tensor
    weight: tl.tensor

@triton.jit
def combine(mean_1, m2_1, w_1, mean_2, m2_2, w_2):
    delta = mean_2 - mean_1
    w = w_1 + w_2
    r = tl.where(w == 0.0, 0.0, w_2 / tl.where(w == 0.0, 1.0, w))
    return mean_1 + delta * r, m2_1 + m2_2 + delta * delta * w_1 * r, w

@triton.jit
def row_stats(x, mask):
    w = mask.to(tl.float32)
    mean, m2, weight = tl.reduce((x, tl.zeros_like(x), w), 0, combine)
    return Welford(mean, m2, weight)

@triton.jit
def stats_kernel(x_ptr, mean_ptr, var_ptr, N, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    s = row_stats(tl.load(x_ptr + r * N + c, mask=c < N, other=0.0), c < N)
    tl.store(mean_ptr + r, s.mean)
    tl.store(var_ptr + r, s.m2 / (s.weight - 1))

class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        m, v = x.new_empty(x.shape[0]), x.new_empty(x.shape[0])
        stats_kernel[(x.shape[0],)](x, m, v, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return m, v
