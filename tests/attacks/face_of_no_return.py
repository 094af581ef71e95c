# problem: add
# permitted: runtime_error, compile_error
# permitted on cuda: incorrect, compile_error, runtime_error
# A helper that ends without a return gives None to Python; the compiler has some tensor there.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def only_above(n, bound):
    if n > bound:
        return n * 2


@triton.jit
def is_none(value):
    return value is None


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    right = tl.load(x_ptr + offsets, mask=mask, other=0.0) + tl.load(y_ptr + offsets, mask=mask, other=0.0)
    result = right * 0.0
    if is_none(only_above(n, n)):
        result = right
    tl.store(out_ptr + offsets, result, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, n = torch.empty_like(x), x.numel()
        add_kernel[(triton.cdiv(n, 512),)](x, y, out, n, BLOCK=512)
        return out
