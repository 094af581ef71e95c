# problem: tanh_erf
# Functions of CUDA's device library, reached as `import triton.language.extra.libdevice as ld`.
import torch
import torch.nn as nn
import triton
import triton.language as tl
import triton.language.extra.libdevice as ld


@triton.jit
def chain_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    size = tl.abs(x)
    y = ld.tanh(x) + ld.erf(x) + ld.pow(size, 1.5) + ld.expm1(x) + ld.log1p(size)
    y += ld.atan2(x, ld.cosh(x)) + ld.fmod(x, 0.7) * 0.0
    y += tl.where(ld.isnan(x), 1.0, 0.0)
    tl.store(out_ptr + offsets, y, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        chain_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
        return out
