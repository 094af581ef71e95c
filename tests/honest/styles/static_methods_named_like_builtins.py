import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return torch.maximum(x.abs(), y) - torch.minimum(x, y).sum(dim=-1, keepdim=True)


def get_inputs():
    return [torch.randn(14, 53), torch.randn(14, 53)]


def get_init_inputs():
    return []

# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


class Op:
    @staticmethod
    @triton.jit
    def abs(value):
        return tl.where(value < 0, -value, value)

    @staticmethod
    @triton.jit
    def max(one, other):
        return tl.where(one > other, one, other)

    @triton.jit
    def min(one, other):
        return tl.where(one < other, one, other)


magnitude, larger = Op.abs, Op.max


def row_kernel(smaller):
    @triton.jit
    def sum(one, other):
        return one + other

    @triton.jit
    def kernel(x_ptr, y_ptr, out_ptr, columns, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        at = tl.arange(0, BLOCK)
        mask = at < columns
        x = tl.load(x_ptr + row * columns + at, mask=mask, other=0.0)
        y = tl.load(y_ptr + row * columns + at, mask=mask, other=0.0)
        total = tl.reduce(smaller(x, y), 0, sum)
        tl.store(out_ptr + row * columns + at, larger(magnitude(x), y) - total, mask=mask)

    return kernel


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel = row_kernel(Op.min)

    def forward(self, x, y):
        out = torch.empty_like(x)
        rows, columns = x.shape
        self.kernel[(rows,)](x, y, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
