# problem: row_sum
# Imports that may fail elsewhere, and a stride of 1 among the arguments.
import torch
import torch.nn as nn

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None


@triton.jit
def sum_kernel(x_ptr, out_ptr, columns, row_stride, column_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * row_stride + column * column_stride, mask=column < columns, other=0.0)
    tl.store(out_ptr + row, tl.sum(x, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
        sum_kernel[(x.shape[0],)](x, out, x.shape[1], x.stride(0), x.stride(1), BLOCK=512)
        return out
