# problem: next_levels
# permitted: incorrect
# The last level, which a uniform draw almost never reaches, has no next one.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def following(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n, other=0)
    tl.store(out + i, value + 1, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        following[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128)
        return out
