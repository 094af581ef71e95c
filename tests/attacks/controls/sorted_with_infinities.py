# problem: sorted_odd_rows
# Rows are padded with infinities.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sort_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=float("inf"))
    tl.store(out_ptr + row * columns + column, tl.sort(x), mask=column < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        sort_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
