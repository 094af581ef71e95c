"""Rows of length one: a program a row, read once for the sum of squares, once more to write."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

BLOCK_SIZE = 4096


@triton.jit
def normalise_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * columns
    lanes = tl.arange(0, BLOCK)
    squares = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, columns, BLOCK):
        x = tl.load(x_ptr + start + first + lanes, mask=first + lanes < columns, other=0.0)
        squares += x * x
    norm = tl.sqrt(tl.sum(squares, 0))
    for first in range(0, columns, BLOCK):
        inside = first + lanes < columns
        x = tl.load(x_ptr + start + first + lanes, mask=inside, other=0.0)
        tl.store(out_ptr + start + first + lanes, x / norm, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty_like(x)
        block = min(BLOCK_SIZE, triton.next_power_of_2(columns))
        normalise_kernel[(rows,)](x, out, columns, BLOCK=block, num_warps=8)
        return out
