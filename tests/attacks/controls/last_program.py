# problem: row_sum
# The last program of a row, identified by a counter, moves the sum; all that others wrote it reads atomically.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_kernel(x_ptr, sum_ptr, count_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=0.0)
    tl.atomic_add(sum_ptr + row, tl.sum(x, axis=0))
    if tl.atomic_add(count_ptr + row, 1) == tl.num_programs(1) - 1:
        tl.store(out_ptr + row, tl.atomic_add(sum_ptr + row, 0.0))
        tl.atomic_xchg(count_ptr + row, 0)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        sums = torch.zeros(rows, device=x.device)
        counts = torch.zeros(rows, dtype=torch.int32, device=x.device)
        out = torch.empty(rows, device=x.device)
        row_kernel[(rows, triton.cdiv(columns, 64))](x, sums, counts, out, columns, BLOCK=64)
        return out
