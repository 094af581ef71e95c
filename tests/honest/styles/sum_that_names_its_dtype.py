import torch
import torch.nn as nn
class Model(nn.Module):
    def forward(self, x):
        return x.sum(-1, dtype=torch.float32)
def get_inputs():
    return [torch.randn(256, 2048)]
def get_init_inputs():
    return []
# ----- candidate -----
"""Sums by blocks, in another order than torch."""
import torch
import torch.nn as nn
import triton
import triton.language as tl
@triton.jit
def k(x, o, n, B: tl.constexpr):
    r = tl.program_id(0)
    a = tl.zeros((B,), tl.float32)
    for s in range(0, n, B):
        i = s + tl.arange(0, B)
        a += tl.load(x + r * n + i, mask=i < n, other=0.0)
    tl.store(o + r, tl.sum(a, 0))
class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty(x.shape[0], device=x.device)
        k[(x.shape[0],)](x, o, x.shape[1], B=1024)
        return o
