# problem: counts
# A histogram of each row, by tl.histogram.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def counts_kernel(x_ptr, out_ptr, columns, BINS: tl.constexpr, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=0).to(tl.int32)
    counts = tl.histogram(x, BINS, mask=mask)
    tl.store(out_ptr + row * BINS + tl.arange(0, BINS), counts.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty((rows, 16), dtype=torch.int64, device=x.device)
        counts_kernel[(rows,)](x, out, columns, BINS=16, BLOCK=triton.next_power_of_2(columns))
        return out
