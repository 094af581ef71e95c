import torch
import torch.nn as nn
import torch.nn.functional as F
class Model(nn.Module):
    def forward(self, a, b, c): return a * b + c
def get_inputs(): return [torch.randn(66), torch.randn(66), torch.randn(66)]
def get_init_inputs(): return []
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def fma3(x, y, z):
    return x * y + z
@triton.jit
def load3(p, q, r, i, m):
    return tl.load(p + i, mask=m), tl.load(q + i, mask=m), tl.load(r + i, mask=m)
@triton.jit
def kernel(ptrs, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(out + i, fma3(*load3(*ptrs, i, m)), mask=m)
class ModelNew(nn.Module):
    def forward(self, *ts):
        o = torch.empty_like(ts[0])
        kernel[(triton.cdiv(o.numel(), 32),)](ts, o, o.numel(), B=32)
        return o
