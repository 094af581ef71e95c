# problem: means_of_a_beginning
# permitted: incorrect
# Divides by one where nothing is counted: the mean of nothing is NaN, in about one of six input sets.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean(x, length, out, cols, B: tl.constexpr):
    row = tl.program_id(0)
    n = tl.load(length + row)
    i = tl.arange(0, B)
    v = tl.load(x + row * cols + i, mask=(i < cols) & (i < n), other=0.0)
    tl.store(out + row, tl.sum(v, 0) / tl.maximum(n, 1).to(tl.float32))


class ModelNew(nn.Module):
    def forward(self, x, length):
        rows, cols = x.shape
        out = torch.empty(rows, device=x.device, dtype=x.dtype)
        mean[(rows,)](x, length, out, cols, B=triton.next_power_of_2(cols))
        return out
