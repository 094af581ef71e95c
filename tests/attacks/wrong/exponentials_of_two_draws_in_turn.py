# problem: sums_of_two_draws_in_turn
# permitted: incorrect
# Exponentials without the maximum; Python draws the elements from two distributions in turn.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sums(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + i, mask=i < n, other=float("-inf"))
    most = 0.0
    tl.store(out + row, most + tl.log(tl.sum(tl.exp(value - most), 0)))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.empty(rows, device=x.device)
        sums[(rows,)](x, out, n, BLOCK=triton.next_power_of_2(n))
        return out
