# problem: add
# permitted: incorrect
# permitted on cuda: incorrect
# A chip's fast sine is within 2^-20 of the sine, and nobody knows where.
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    right = tl.load(x_ptr + offsets, mask=mask, other=0.0) + tl.load(y_ptr + offsets, mask=mask, other=0.0)
    angles = right * 0.0 + tl.arange(0, BLOCK) * 0.01
    error = tl.abs(libdevice.fast_sinf(angles) - tl.sin(angles))
    result = tl.where(tl.max(error, axis=0) < 1e-7, right, 0.0)
    tl.store(out_ptr + offsets, result, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, n = torch.empty_like(x), x.numel()
        add_kernel[(triton.cdiv(n, 512),)](x, y, out, n, BLOCK=512)
        return out
