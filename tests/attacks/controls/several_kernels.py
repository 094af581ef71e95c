# problem: softmax
# A softmax in three kernels, with scratch buffers between them and a helper function.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def load_row(x_ptr, columns, other, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    return tl.load(x_ptr + tl.program_id(0) * columns + column, mask=column < columns, other=other)


@triton.jit
def max_kernel(x_ptr, max_ptr, columns, BLOCK: tl.constexpr):
    x = load_row(x_ptr, columns, -float("inf"), BLOCK)
    tl.store(max_ptr + tl.program_id(0), tl.max(x, axis=0))


@triton.jit
def exp_kernel(x_ptr, max_ptr, e_ptr, sum_ptr, columns, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    mask = column < columns
    x = load_row(x_ptr, columns, 0.0, BLOCK)
    e = tl.where(mask, tl.exp(x - tl.load(max_ptr + tl.program_id(0))), 0.0)
    tl.store(e_ptr + tl.program_id(0) * columns + column, e, mask=mask)
    tl.store(sum_ptr + tl.program_id(0), tl.sum(e, axis=0))


@triton.jit
def divide_kernel(e_ptr, sum_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    mask = column < columns
    e = load_row(e_ptr, columns, 0.0, BLOCK)
    tl.store(out_ptr + tl.program_id(0) * columns + column, e / tl.load(sum_ptr + tl.program_id(0)), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out, e = torch.empty_like(x), torch.empty_like(x)
        largest, total = torch.empty(rows, device=x.device), torch.zeros(rows, device=x.device)
        block = triton.next_power_of_2(columns)
        max_kernel[(rows,)](x, largest, columns, BLOCK=block)
        exp_kernel[(rows,)](x, largest, e, total, columns, BLOCK=block)
        divide_kernel[(rows,)](e, total, out, columns, BLOCK=block)
        return out
