# problem: shares_of_chosen
# permitted: incorrect
# missed: by about 30 evaluations of 100
# If the whole mask is empty, everything is divided by zero.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def share(x, chosen, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n, other=0.0)
    taken = tl.load(chosen + i, mask=i < n, other=0).to(tl.float32)
    tl.store(out + i, value * taken / tl.sum(taken, 0), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, chosen):
        out = torch.empty_like(x)
        share[(1,)](x, chosen, out, x.numel(), BLOCK=triton.next_power_of_2(x.numel()))
        return out
