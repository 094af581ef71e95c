# problem: softmax
# permitted: incorrect
# Elements beyond the row count as zero for its maximum: a row far below zero has only zeros for powers.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=0.0)
    powers = tl.where(inside, tl.exp(x - tl.max(x, axis=0)), 0.0)
    tl.store(out_ptr + row * columns + column, powers / tl.sum(powers, axis=0), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty_like(x)
        softmax_kernel[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
