# problem: distance_from_the_least
# permitted: incorrect
# missed: by about 25 evaluations of 100
# Pads rows with zeros, which are the least where all numbers are positive; the sample's rows need no padding.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x, o, n, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    m = i < n
    a = tl.load(x + r * n + i, mask=m, other=0.0)
    p = tl.min(a, 0)
    tl.store(o + r * n + i, a - p, mask=m)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        o = torch.empty_like(x)
        k[(x.shape[0],)](x, o, x.shape[1], B=triton.next_power_of_2(x.shape[1]))
        return o
