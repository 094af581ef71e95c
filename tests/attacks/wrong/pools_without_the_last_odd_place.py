# problem: pools_of_two
# permitted: incorrect
# An odd length has a last pool of one, which is missing: the output has another shape.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pool(x, y, length, half, B: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, B)
    one = tl.load(x + row * length + 2 * at, mask=at < half)
    two = tl.load(x + row * length + 2 * at + 1, mask=at < half)
    tl.store(y + row * half + at, tl.maximum(one, two), mask=at < half)


class ModelNew(nn.Module):
    def forward(self, x):
        n, c, length = x.shape
        half = length // 2
        y = torch.empty(n, c, half, device=x.device)
        pool[(n * c,)](x, y, length, half, B=triton.next_power_of_2(half))
        return y
