# problem: bias
# A row vector broadcast over a matrix, on a two-dimensional grid.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bias_kernel(x_ptr, bias_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask)
    bias = tl.load(bias_ptr + column, mask=mask)
    tl.store(out_ptr + row * columns + column, x * 2.0 + bias, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, bias):
        out = torch.empty_like(x)
        rows, columns = x.shape
        bias_kernel[(rows, triton.cdiv(columns, 32))](x, bias, out, columns, BLOCK=32)
        return out
