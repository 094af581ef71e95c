# problem: row_sum
# Partial sums added atomically to a zeroed buffer.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def partial_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=0.0)
    tl.atomic_add(out_ptr + row, tl.sum(x, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.zeros(rows, dtype=x.dtype, device=x.device)
        partial_kernel[(rows, triton.cdiv(columns, 128))](x, out, columns, BLOCK=128)
        return out
