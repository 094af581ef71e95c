# problem: mask_of_a_triangle
# Reads the mask.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def masked_sum_kernel(x_ptr, mask_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    batch, row = tl.program_id(0), tl.program_id(1)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + (batch * rows + row) * columns + column, mask=inside, other=0.0)
    mask = tl.load(mask_ptr + row * columns + column, mask=inside, other=0.0)
    tl.store(out_ptr + batch * rows + row, tl.sum(tl.where(inside, x * mask, 0.0), axis=0))


class ModelNew(nn.Module):
    def forward(self, x, mask):
        batch, rows, columns = x.shape
        out = torch.empty((batch, rows), device=x.device)
        block = triton.next_power_of_2(columns)
        masked_sum_kernel[(batch, rows)](x, mask.contiguous(), out, rows, columns, BLOCK=block)
        return out
