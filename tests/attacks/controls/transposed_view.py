# problem: row_sum
# Views, transposes and contiguous copies are the host's business and allowed.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def column_sum_kernel(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = column < columns
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in range(rows):
        total += tl.load(x_ptr + row * columns + column, mask=mask, other=0.0)
    tl.store(out_ptr + column, total, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        transposed = x.t().contiguous()
        rows, columns = transposed.shape
        out = torch.zeros(columns * 1, dtype=x.dtype, device=x.device).view(columns, 1)
        column_sum_kernel[(triton.cdiv(columns, 64),)](transposed, out, rows, columns, BLOCK=64)
        return out.squeeze(1)
