# problem: squared_sum
# Every block of a row, the last one masked.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def squared_sum_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=0.0)
        total += tl.sum(x * x, axis=0)
    tl.store(out_ptr + row, total)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], device=x.device)
        squared_sum_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=16)
        return out
