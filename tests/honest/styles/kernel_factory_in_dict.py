import torch
import torch.nn as nn
class Model(nn.Module):
    def forward(self, x, y):
        return torch.relu(x + y), (x * y).tanh()
def get_inputs():
    return [torch.randn(13, 47), torch.randn(13, 47)]
def get_init_inputs():
    return []
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def add_relu(a, b):
    return tl.maximum(a + b, 0.0)


@triton.jit
def mul_tanh(a, b):
    return libdevice.tanh(a * b)


def make_kernel(op):
    @triton.jit
    def kernel(a_ptr, b_ptr, o_ptr, n, BLOCK: tl.constexpr):
        offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = offs < n
        a = tl.load(a_ptr + offs, mask=mask)
        b = tl.load(b_ptr + offs, mask=mask)
        tl.store(o_ptr + offs, op(a, b), mask=mask)

    return kernel


KERNELS = {"add_relu": make_kernel(add_relu), "mul_tanh": make_kernel(mul_tanh)}


class ModelNew(nn.Module):
    def run(self, which, x, y):
        out = torch.empty_like(x)
        n = x.numel()
        KERNELS[which][(triton.cdiv(n, 256),)](x, y, out, n, BLOCK=256)
        return out

    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        return self.run("add_relu", x, y), self.run("mul_tanh", x, y)
