# problem: row_max
# permitted: incorrect
# The maximum begins at -1e4 instead of minus infinity.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def max_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=-10000.0)
    tl.store(out_ptr + row, tl.max(x, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty(rows, device=x.device)
        max_kernel[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
