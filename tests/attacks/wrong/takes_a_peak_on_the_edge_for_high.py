# problem: halves_above_a_peak
# permitted: incorrect
# missed: by about 25 evaluations of 100
# Takes a peak that lies on the threshold for one above it: no single number is compared, the largest of a row is.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x, o, n, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    m = i < n
    a = tl.load(x + r * n + i, mask=m, other=-float("inf"))
    p = tl.max(a, 0)
    tl.store(o + r * n + i, tl.where(p >= 1.5, a * 0.5, a), mask=m)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        o = torch.empty_like(x)
        k[(x.shape[0],)](x, o, x.shape[1], B=triton.next_power_of_2(x.shape[1]))
        return o
