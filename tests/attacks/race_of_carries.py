# problem: cumsum
# permitted: runtime_error
# permitted on cuda: incorrect
# Each program goes on from what the one before it has stored.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    column = part * BLOCK + tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=0.0)
    before = tl.load(out_ptr + row * columns + part * BLOCK - 1, mask=part > 0, other=0.0)
    tl.store(out_ptr + row * columns + column, tl.cumsum(x, axis=0) + before, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        row_kernel[(x.shape[0], triton.cdiv(x.shape[1], 64))](x, out, x.shape[1], BLOCK=64)
        return out
