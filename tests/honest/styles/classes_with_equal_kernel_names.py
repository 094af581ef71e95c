import torch
import torch.nn as nn
import torch.nn.functional as F
class Model(nn.Module):
    def forward(self, x): return torch.sigmoid(x) + torch.tanh(x)
def get_inputs(): return [torch.randn(100, 3)]
def get_init_inputs(): return []
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl

class Sigmoid:
    @triton.jit
    def kernel(x, y, n, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(y + i, tl.sigmoid(tl.load(x + i, i < n, 0.0)), i < n)
class AddTanh:
    @triton.jit
    def kernel(x, y, n, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        v = tl.load(x + i, i < n, 0.0)
        t = 2.0 * tl.sigmoid(2.0 * v) - 1.0
        tl.store(y + i, tl.load(y + i, i < n, 0.0) + t, i < n)
class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous(); y = torch.empty_like(x)
        for op in (Sigmoid, AddTanh):
            op.kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), B=128)
        return y
