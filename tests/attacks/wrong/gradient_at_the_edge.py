# problem: gradient_of_shrinking
# permitted: incorrect
# Passes the gradient on where the input lies on the edge, where the reference has zero.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gradient_kernel(x_ptr, gradient_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    gradient = tl.load(gradient_ptr + offsets, mask=mask, other=0.0)
    tl.store(out_ptr + offsets, tl.where(tl.abs(x) >= 0.5, gradient, 0.0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, gradient):
        out = torch.empty_like(x)
        gradient_kernel[(triton.cdiv(x.numel(), 256),)](x, gradient, out, x.numel(), BLOCK=256)
        return out
