# problem: cumsum_less_mean
# permitted: runtime_error, incorrect
# Keeps a workspace that has the rows of the first call; a later call with more rows writes behind it.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def means(x, m, n, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + r * n + i, mask=i < n, other=0.0)
    tl.store(m + r, tl.sum(v, 0) / n)


@triton.jit
def scan(x, m, out, n, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + r * n + i, mask=i < n, other=0.0)
    tl.store(out + r * n + i, tl.cumsum(v, 0) - tl.load(m + r), mask=i < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = None

    def forward(self, x):
        rows, n = x.shape
        if self.m is None:
            # Made for the rows of the first call: a later, larger batch runs beyond it.
            self.m = torch.empty(rows, device=x.device)
        out = torch.empty_like(x)
        B = triton.next_power_of_2(n)
        means[(rows,)](x, self.m, n, B=B)
        scan[(rows,)](x, self.m, out, n, B=B)
        return out
