# problem: means_of_what_is_there
# permitted: incorrect
# Divides by one where every number of a row is missing: the mean of nothing is NaN, and no plain input has such a row.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x, o, n, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + r * n + i, mask=i < n, other=float("nan"))
    ok = v == v
    c = tl.sum(ok.to(tl.float32), 0)
    tl.store(o + r, tl.sum(tl.where(ok, v, 0.0), 0) / tl.maximum(c, 1.0))


class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty(x.shape[0], device=x.device)
        mean_kernel[(x.shape[0],)](x, o, x.shape[1], B=triton.next_power_of_2(x.shape[1]))
        return o
