# problem: relu
# A kernel that is handed its elementwise function.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def positive(value):
    return tl.maximum(value, 0.0)


@triton.jit
def map_kernel(x_ptr, out_ptr, n, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, FUNCTION(x), mask=offsets < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        map_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), FUNCTION=positive, BLOCK=256)
        return out
