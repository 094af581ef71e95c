"""Running sums of rows: a program a row, blocks in order, each with the sum before it."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

BLOCK_SIZE = 2048


@triton.jit
def cumsum_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * columns
    lanes = tl.arange(0, BLOCK)
    before = 0.0
    for first in range(0, columns, BLOCK):
        inside = first + lanes < columns
        x = tl.load(x_ptr + start + first + lanes, mask=inside, other=0.0)
        tl.store(out_ptr + start + first + lanes, before + tl.cumsum(x, 0), mask=inside)
        before += tl.sum(x, 0)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        rows = x.movedim(self.dim, -1).contiguous()
        columns = rows.shape[-1]
        out = torch.empty_like(rows)
        cumsum_kernel[(rows.numel() // columns,)](rows, out, columns, BLOCK=BLOCK_SIZE)
        return out.movedim(-1, self.dim)
