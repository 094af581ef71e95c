import torch
import torch.nn as nn
class Model(nn.Module):
    def forward(self, x):
        return torch.exp(-torch.abs(x)), torch.cos(x)
def get_inputs():
    return [torch.randn(1000)]
def get_init_inputs():
    return []
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


def laplace():
    @triton.jit
    def kernel(x, y, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + i, tl.exp(-tl.abs(tl.load(x + i, mask=i < n))), mask=i < n)

    return kernel


def cosine():
    @triton.jit
    def kernel(x, y, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + i, tl.cos(tl.load(x + i, mask=i < n)), mask=i < n)

    return kernel


class Op:
    def __init__(self, kernel):
        self.kernel = kernel

    def __call__(self, x):
        y = torch.empty_like(x)
        self.kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
        return y


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = Op(laplace()), Op(cosine())

    def forward(self, x):
        return self.a(x), self.b(x)
