# problem: leaky_sums_in_place
# Returns its buffer, as the problem does.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def leak(x, held, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    new = 0.75 * tl.load(held + i, mask=inside) + tl.load(x + i, mask=inside)
    tl.store(held + i, new, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.register_buffer("held", torch.zeros(12, features))

    def forward(self, x):
        leak[(triton.cdiv(x.numel(), 128),)](x, self.held, x.numel(), BLOCK=128)
        return self.held
