# problem: sorted_rows
# Sorts a row as one block, which must be a power of two.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sort_kernel(x_ptr, out_ptr, COLUMNS: tl.constexpr):
    offsets = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(out_ptr + offsets, tl.sort(tl.load(x_ptr + offsets)))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        sort_kernel[(x.shape[0],)](x, out, COLUMNS=x.shape[1])
        return out
