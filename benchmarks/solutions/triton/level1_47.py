"""Sum over one dimension: a block of the inner positions a program, the dimension in tiles."""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl

BLOCK_SIZE = 256
TILE_ROWS = 16


@triton.jit
def sum_over_kernel(x_ptr, out_ptr, length, inner, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    outer = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    rows = tl.arange(0, ROWS)[:, None]
    found = tl.full((ROWS, BLOCK), 0.0, tl.float32)
    for first in range(0, length, ROWS):
        place = x_ptr + (outer * length + first + rows) * inner + at
        x = tl.load(place, mask=(first + rows < length) & (at < inner), other=0.0)
        found = found + x
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + outer * inner + column, tl.sum(found, 0), mask=column < inner)


class ModelNew(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        dim = self.dim % x.dim()
        outer, length, inner = math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :])
        out = torch.empty([*x.shape[:dim], 1, *x.shape[dim + 1 :]], device=x.device)
        grid = (outer, triton.cdiv(inner, BLOCK_SIZE))
        sum_over_kernel[grid](x, out, length, inner, ROWS=TILE_ROWS, BLOCK=BLOCK_SIZE, num_warps=8)
        return out
