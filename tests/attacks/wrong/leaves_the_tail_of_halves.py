# problem: gated_halves
# permitted: incorrect
# Leaves out the last elements where 32 does not divide their number: with sizes in halves, and an odd number of rows.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x, o, n, h, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n - n % 32
    r = i // h
    c = i % h
    a = tl.load(x + r * 2 * h + c, mask=m)
    b = tl.load(x + r * 2 * h + h + c, mask=m)
    tl.store(o + i, a * tl.sigmoid(b), mask=m)


class ModelNew(nn.Module):
    def forward(self, x):
        h = x.shape[-1] // 2
        o = torch.empty(x.shape[0], h, device=x.device, dtype=x.dtype)
        k[(triton.cdiv(o.numel(), 256),)](x, o, o.numel(), h, B=256)
        return o
