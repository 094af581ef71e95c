# problem: running_maximum
# tl.associative_scan with a function of the candidate's own.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def larger(left, right):
    return tl.maximum(left, right)


@triton.jit
def scan_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=-float("inf"))
    tl.store(out_ptr + row * columns + column, tl.associative_scan(x, 0, larger), mask=column < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty_like(x)
        scan_kernel[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
