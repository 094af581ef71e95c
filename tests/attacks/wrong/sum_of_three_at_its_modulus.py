# problem: sum_of_three
# missed: by about 17 evaluations of 100
# Subtracts the modulus of a sum of three draws where it is more, not where it is equal.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(a, b, c, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    s = tl.load(a + i, mask=m, other=0) + tl.load(b + i, mask=m, other=0)
    s = tl.where(s >= 998244353, s - 998244353, s)
    s = s + tl.load(c + i, mask=m, other=0)
    s = tl.where(s > 998244353, s - 998244353, s)
    tl.store(o + i, s, mask=m)


class ModelNew(nn.Module):
    def forward(self, a, b, c):
        o = torch.empty_like(a)
        k[(triton.cdiv(a.numel(), 64),)](a, b, c, o, a.numel(), B=64)
        return o
