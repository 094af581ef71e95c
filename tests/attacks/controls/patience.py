# problem: patience
# Counts the calls that got worse, and acts on the fourth.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def count_kernel(x_ptr, bad_ptr, out_ptr, size, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < size, other=0.0)
    bad = tl.where(tl.sum(x, axis=0) > 0, tl.load(bad_ptr) + 1, 0)
    tl.store(bad_ptr, bad)
    tl.store(out_ptr + at, tl.where(bad >= 4, x * 0.1, x), mask=at < size)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("bad", torch.zeros((), dtype=torch.int32))

    def forward(self, x):
        out = torch.empty_like(x)
        count_kernel[(1,)](x, self.bad, out, x.numel(), BLOCK=triton.next_power_of_2(x.numel()))
        return out
