# problem: add
# permitted: compile_error, runtime_error
# A tensor is true to the compiler's Python, whatever it holds, and to the interpreter where it is not zero.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.constexpr_function
def is_true(value):
    return 1 if value else 0


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    right = tl.load(x_ptr + offsets, mask=mask, other=0.0) + tl.load(y_ptr + offsets, mask=mask, other=0.0)
    tl.store(out_ptr + offsets, right * (1 - is_true(n - n)), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, n = torch.empty_like(x), x.numel()
        add_kernel[(triton.cdiv(n, 512),)](x, y, out, n, BLOCK=512)
        return out
