import torch
import torch.nn as nn
class Model(nn.Module):
    def forward(self, a, b):
        return a @ b
def get_inputs():
    return [torch.randn(16, 64), torch.randn(64, 1).expand(64, 64)]
def get_init_inputs():
    return []
# ----- candidate -----
"""A column that is one number wide in memory, by its strides."""
import torch
import torch.nn as nn
import triton
import triton.language as tl
@triton.jit
def k(a, b, o, K, N, sb, sn, B: tl.constexpr, C: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B); j = tl.arange(0, C)
    x = tl.load(a + r * K + i, mask=i < K, other=0.0)
    w = tl.load(b + i[:, None] * sb + j[None, :] * sn, mask=(i[:, None] < K) & (j[None, :] < N), other=0.0)
    tl.store(o + r * N + j, tl.sum(x[:, None] * w, 0), mask=j < N)
class ModelNew(nn.Module):
    def forward(self, a, b):
        o = torch.empty(a.shape[0], b.shape[1], device=a.device)
        k[(a.shape[0],)](a, b, o, a.shape[1], b.shape[1], *b.stride(), B=triton.next_power_of_2(a.shape[1]), C=triton.next_power_of_2(b.shape[1]))
        return o
