"""A diagonal matrix times a matrix: each row by its number, without the zeros."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

BLOCK_SIZE = 1024


@triton.jit
def scale_rows_kernel(diagonal_ptr, matrix_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    factor = tl.load(diagonal_ptr + row)
    matrix = tl.load(matrix_ptr + row * columns + column, mask=inside)
    tl.store(out_ptr + row * columns + column, factor * matrix, mask=inside)


class ModelNew(nn.Module):
    def forward(self, diagonal, matrix):
        rows, columns = matrix.shape
        out = torch.empty_like(matrix)
        grid = (rows, triton.cdiv(columns, BLOCK_SIZE))
        scale_rows_kernel[grid](diagonal, matrix, out, columns, BLOCK=BLOCK_SIZE)
        return out
