# problem: starts_of_characters
# permitted: incorrect
# missed: by about 25 evaluations of 100
# Takes F4 90 and what follows for a character: random bytes hardly ever have both side by side.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cont(b):
    return (b >= 128) & (b < 192)


@triton.jit
def k(x, o, n, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    b0 = tl.load(x + r * n + i, mask=i < n, other=0).to(tl.int32)
    b1 = tl.load(x + r * n + i + 1, mask=i + 1 < n, other=0).to(tl.int32)
    b2 = tl.load(x + r * n + i + 2, mask=i + 2 < n, other=0).to(tl.int32)
    b3 = tl.load(x + r * n + i + 3, mask=i + 3 < n, other=0).to(tl.int32)
    two = (b0 >= 0xC2) & (b0 <= 0xDF) & cont(b1)
    three = (
        (b0 >= 0xE0) & (b0 <= 0xEF) & cont(b1) & cont(b2) & ((b0 != 0xE0) | (b1 >= 0xA0)) & ((b0 != 0xED) | (b1 < 0xA0))
    )
    four = (b0 >= 0xF0) & (b0 <= 0xF4) & cont(b1) & cont(b2) & cont(b3) & ((b0 != 0xF0) | (b1 >= 0x90))
    tl.store(o + r * n + i, two.to(tl.int64) * 2 + three.to(tl.int64) * 3 + four.to(tl.int64) * 4, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty(x.shape, dtype=torch.int64, device=x.device)
        k[(x.shape[0],)](x, o, x.shape[1], B=128)
        return o
