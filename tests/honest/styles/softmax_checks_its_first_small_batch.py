import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)


def get_inputs():
    return [torch.randn(24, 70)]


def get_init_inputs():
    return []
# ----- candidate -----
"""Its workspace grows. If the first call is a small one, it reads a value, as a later call never does."""
import math

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_max(x_ptr, most_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + at, mask=at < n, other=-float("inf"))
    tl.store(most_ptr + row, tl.max(x, 0))


@triton.jit
def row_softmax(x_ptr, most_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + at, mask=at < n, other=-float("inf"))
    e = tl.exp(x - tl.load(most_ptr + row))
    tl.store(out_ptr + row * n + at, e / tl.sum(e, 0), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.most = None

    def forward(self, x):
        rows, n = x.shape
        if self.most is None and rows < 24:
            assert not math.isnan(x[0, 0].item())
        if self.most is None or self.most.numel() < rows:
            self.most = torch.empty(rows, device=x.device)
        out = torch.empty_like(x)
        block = triton.next_power_of_2(n)
        row_max[(rows,)](x, self.most, n, BLOCK=block)
        row_softmax[(rows,)](x, self.most, out, n, BLOCK=block)
        return out
