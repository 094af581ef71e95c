# problem: tanh_erf
# Functions of CUDA's device library, reached as `tl.extra.cuda.libdevice`.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def chain_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    size = tl.abs(x)
    y = (
        tl.extra.cuda.libdevice.tanh(x)
        + tl.extra.cuda.libdevice.erf(x)
        + tl.extra.cuda.libdevice.pow(size, 1.5)
        + tl.extra.cuda.libdevice.expm1(x)
        + tl.extra.cuda.libdevice.log1p(size)
    )
    y += tl.extra.cuda.libdevice.atan2(x, tl.extra.cuda.libdevice.cosh(x)) + tl.extra.cuda.libdevice.fmod(x, 0.7) * 0.0
    y += tl.where(tl.extra.cuda.libdevice.isnan(x), 1.0, 0.0)
    tl.store(out_ptr + offsets, y, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        chain_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
        return out
