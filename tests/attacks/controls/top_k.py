# problem: top_k
# Sorts each row downwards and keeps the first elements.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def top_kernel(x_ptr, out_ptr, columns, K: tl.constexpr, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=-float("inf"))
    tl.store(out_ptr + row * K + column, tl.sort(x, descending=True), mask=column < K)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty((rows, 5), dtype=x.dtype, device=x.device)
        top_kernel[(rows,)](x, out, columns, K=5, BLOCK=triton.next_power_of_2(columns))
        return out
