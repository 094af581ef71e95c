# problem: logsumexp_of_what_is_kept
# permitted: incorrect
# Subtracts minus infinity from itself in a row of which a mask keeps nothing.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x, o, n, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    inside = i < n
    v = tl.load(x + r * n + i, mask=inside, other=-float("inf"))
    t = tl.max(v, 0)
    tl.store(o + r, t + tl.log(tl.sum(tl.exp(v - t), 0)))


class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty(x.shape[0], device=x.device)
        kernel[(x.shape[0],)](x, o, x.shape[1], B=triton.next_power_of_2(x.shape[1]))
        return o
