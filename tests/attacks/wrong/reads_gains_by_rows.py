# problem: gains_by_columns
# permitted: incorrect
# Makes its parameter by columns, as the problem does, and reads its memory by rows.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled(x, gain, out, n, period, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < n
    g = tl.load(gain + i % period, mask=inside, other=0.0)
    tl.store(out + i, g * tl.load(x + i, mask=inside, other=0.0), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, rows, cols):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(cols, rows).t())

    def forward(self, x):
        out = torch.empty_like(x)
        scaled[(triton.cdiv(x.numel(), 256),)](x, self.gain, out, x.numel(), self.gain.numel(), B=256)
        return out
