# problem: buckets_of_halves
# permitted: incorrect
# Counts edges up to and with a number, where bucketize counts those below it.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kern(x, e, o, n, K, B: tl.constexpr, BK: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    k = tl.arange(0, BK)
    a = tl.load(x + i, mask=m, other=0.0)
    b = tl.load(e + k, mask=k < K, other=float("inf"))
    c = tl.sum((b[None, :] <= a[:, None]).to(tl.int64), 1)
    tl.store(o + i, c, mask=m)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("e", (torch.arange(-32, 33) / 16 + 1 / 64).half())

    def forward(self, x):
        o = torch.empty(x.shape, device=x.device, dtype=torch.int64)
        kern[(triton.cdiv(x.numel(), 128),)](x, self.e, o, x.numel(), self.e.numel(), B=128, BK=128)
        return o
