# problem: sorted_odd_rows
# permitted: incorrect
# missed: by about 20 evaluations of 100
# Rows are padded with 1e4, which is sorted before larger numbers.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sort_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=10000.0)
    tl.store(out_ptr + row * columns + column, tl.sort(x), mask=column < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        sort_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
