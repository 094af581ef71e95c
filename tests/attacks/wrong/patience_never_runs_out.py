# problem: patience
# permitted: incorrect
# missed: by about 50 evaluations of 100
# Counts, and never acts on the count, which seldom reaches four: each good call resets it.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def count_kernel(x_ptr, bad_ptr, out_ptr, size, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < size, other=0.0)
    bad = tl.load(bad_ptr)
    tl.store(bad_ptr, tl.where(tl.sum(x, axis=0) > 0, bad + 1, 0))
    tl.store(out_ptr + at, x, mask=at < size)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("bad", torch.zeros((), dtype=torch.int32))

    def forward(self, x):
        out = torch.empty_like(x)
        count_kernel[(1,)](x, self.bad, out, x.numel(), BLOCK=triton.next_power_of_2(x.numel()))
        return out
