# problem: checksum
# permitted: incorrect
# missed: by about 10 evaluations of 100
# Subtracts the modulus of a sum where it is more, not where it is equal.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x, a, b, n, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + r * n + i, mask=i < n, other=0).to(tl.int32)
    s = 1 + tl.sum(v)
    if s > 65521:
        s = s - 65521
    t = n + tl.sum(v * (n - i))
    q = (t.to(tl.float32) / 65521.0).to(tl.int32)
    t = t - q * 65521
    tl.store(a + r, s.to(tl.int64))
    tl.store(b + r, t.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        a = torch.empty(x.shape[0], dtype=torch.int64, device=x.device)
        b = torch.empty_like(a)
        k[(x.shape[0],)](x, a, b, x.shape[1], B=512)
        return a, b
