import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return nn.functional.mish(x)


def get_inputs():
    return [torch.randn(3, 17, 11)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def mish_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    # softplus without overflow
    soft = tl.maximum(x, 0.0) + libdevice.log1p(tl.exp(-tl.abs(x)))
    tl.store(y_ptr + i, x * libdevice.tanh(soft), mask=i < n)


class ModelNew(nn.Module):
    @torch.compiler.disable
    def forward(self, x):
        y = torch.empty_like(x)
        mish_kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
        return y
