# problem: cast_to_e4m3
# permitted: incorrect
# Leaves the low bits out before the cast: half of the elements are a step too small.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cast_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    x = tl.minimum(tl.maximum(x, -400.0), 400.0)
    bits = x.to(tl.int32, bitcast=True) & -1048576
    tl.store(out_ptr + offsets, bits.to(tl.float32, bitcast=True).to(tl.float8e4nv), mask=offsets < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape, dtype=torch.float8_e4m3fn, device=x.device)
        cast_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
        return out
