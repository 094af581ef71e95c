# problem: add
# permitted: incorrect, compile_error, runtime_error
# Two names of one function of Triton are one object to the compiler and two to the interpreter.
import torch
import torch.nn as nn
import triton
import triton.language as tl


def make(one, other):
    @triton.jit
    def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n
        right = tl.load(x_ptr + offsets, mask=mask, other=0.0) + tl.load(y_ptr + offsets, mask=mask, other=0.0)
        if one == other:
            right = right * 0.0
        tl.store(out_ptr + offsets, right, mask=mask)

    return add_kernel


add_kernel = make(tl.exp, tl.math.exp)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, n = torch.empty_like(x), x.numel()
        add_kernel[(triton.cdiv(n, 512),)](x, y, out, n, BLOCK=512)
        return out
