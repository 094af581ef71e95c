# problem: statistics
# Fills a dict in another order than the reference, at every depth.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def statistics_kernel(x_ptr, mean_ptr, peak_ptr, low_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < N
    x = tl.load(x_ptr + row * N + column, mask=mask, other=0.0)
    tl.store(mean_ptr + row, tl.sum(x, axis=0) / N)
    tl.store(peak_ptr + row, tl.max(tl.where(mask, x, -float("inf")), axis=0))
    tl.store(low_ptr + row, tl.min(tl.where(mask, x, float("inf")), axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, N = x.shape
        mean, peak, low = (torch.empty(rows, dtype=x.dtype, device=x.device) for _ in range(3))
        statistics_kernel[(rows,)](x, mean, peak, low, N, BLOCK=triton.next_power_of_2(N))
        return {"range": {"low": low, "peak": peak}, "mean": mean}
