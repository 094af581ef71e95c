# problem: transposed_squares
# permitted: incorrect
# Takes the number of rows for that of columns, which is the same in the sample.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def transpose_kernel(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    start = tl.program_id(0) * rows * columns
    row, column = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (column < columns)
    x = tl.load(x_ptr + start + row * columns + column, mask=inside)
    tl.store(out_ptr + start + column * rows + row, x * 2.0, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        batch, rows, columns = x.shape
        out = torch.empty((batch, columns, rows), device=x.device)
        transpose_kernel[(batch,)](x, out, rows, rows, BLOCK=32)
        return out
