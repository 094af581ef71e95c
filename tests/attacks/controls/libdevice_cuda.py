# problem: tanh_erf
# Functions of CUDA's device library, reached as `from triton.language.extra.cuda import libdevice`.
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice


@triton.jit
def chain_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    size = tl.abs(x)
    y = libdevice.tanh(x) + libdevice.erf(x) + libdevice.pow(size, 1.5) + libdevice.expm1(x) + libdevice.log1p(size)
    y += libdevice.atan2(x, libdevice.cosh(x)) + libdevice.fmod(x, 0.7) * 0.0
    y += tl.where(libdevice.isnan(x), 1.0, 0.0)
    tl.store(out_ptr + offsets, y, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        chain_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
        return out
