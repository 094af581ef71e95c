# problem: long_cumsum
# A scan over rows longer than a block, with a carry from block to block.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cumsum_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    carry = 0.0
    for first in range(0, columns, BLOCK):
        column = first + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=0.0)
        tl.store(out_ptr + row * columns + column, tl.cumsum(x, axis=0) + carry, mask=column < columns)
        carry += tl.sum(x, axis=0)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty_like(x)
        cumsum_kernel[(rows,)](x, out, columns, BLOCK=128)
        return out
