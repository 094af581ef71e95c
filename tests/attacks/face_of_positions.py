# problem: add
# permitted: compile_error
# The compiler forgets positional-only arguments, and gives their values to those behind.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pick(a, /, b):
    return b


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    right = tl.load(x_ptr + offsets, mask=mask, other=0.0) + tl.load(y_ptr + offsets, mask=mask, other=0.0)
    result = pick(right * 0.0, right)
    tl.store(out_ptr + offsets, result, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, n = torch.empty_like(x), x.numel()
        add_kernel[(triton.cdiv(n, 512),)](x, y, out, n, BLOCK=512)
        return out
