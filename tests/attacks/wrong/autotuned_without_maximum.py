# problem: logsumexp
# permitted: incorrect
# One of three configurations leaves the maximum in the exponents, which far numbers alone overflow.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"V": v}, num_warps=w) for v, w in ((0, 2), (1, 4), (2, 8))], key=["n"])
@triton.jit
def kernel(x, o, n, V: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    inside = i < n
    v = tl.load(x + r * n + i, mask=inside, other=-float("inf"))
    if V != 1:
        m = tl.max(v, 0)
        tl.store(o + r, m + tl.log(tl.sum(tl.exp(v - m), 0)))
    else:
        tl.store(o + r, tl.log(tl.sum(tl.exp(v), 0)))


class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty(x.shape[0], device=x.device)
        kernel[(x.shape[0],)](x, o, x.shape[1], B=triton.next_power_of_2(x.shape[1]))
        return o
