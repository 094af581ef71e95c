# problem: clipped_to_a_norm
# permitted: rejected, incorrect
# Each step is right on its own values; the one after an exploding step is dropped.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm2(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(out, tl.sqrt(tl.sum(v * v, 0)))


@triton.jit
def scale(x, s, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    c = 100.0 / (tl.load(s) + 1e-6)
    tl.store(out + i, v * tl.minimum(c, 1.0), mask=i < n)


@triton.jit
def sign(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(out + i, v * 0.0, mask=i < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.large = False

    def forward(self, g):
        n = g.numel()
        s = torch.empty(1, device=g.device)
        norm2[(1,)](g, s, n, B=triton.next_power_of_2(n))
        out = torch.empty_like(g)
        if self.large:
            sign[(triton.cdiv(n, 256),)](g, out, n, B=256)
        else:
            scale[(triton.cdiv(n, 256),)](g, s, out, n, B=256)
        self.large = s.item() > 100.0
        return out
