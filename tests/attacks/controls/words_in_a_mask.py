# problem: add
# `and`, `or` and `not` of blocks, in masks of two dimensions.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, rows, columns, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT)[:, None]
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)[None, :]
    mask = (row < rows) and not (column >= columns)
    at = row * columns + column
    total = tl.load(x_ptr + at, mask=mask) + tl.load(y_ptr + at, mask=mask)
    tl.store(out_ptr + at, total, mask=mask and (row >= 0 or column >= 0))


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        rows, columns = x.shape
        grid = (triton.cdiv(rows, 16), triton.cdiv(columns, 64))
        add_kernel[grid](x, y, out, rows, columns, HEIGHT=16, WIDTH=64)
        return out
