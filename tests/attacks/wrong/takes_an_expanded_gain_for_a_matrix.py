# problem: gain_of_rows
# permitted: runtime_error
# Takes an expanded row of gains, one number in memory for each row, for a whole matrix.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x, b, o, n, sx, sy, bx, by, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + r * sx + i * sy, mask=i < n)
    w = tl.load(b + r * bx + i * by, mask=i < n)
    tl.store(o + r * n + i, v * w + w, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, b):
        o = torch.empty(x.shape, device=x.device)
        k[(x.shape[0],)](x, b, o, x.shape[1], x.shape[1], 1, x.shape[1], 1, B=triton.next_power_of_2(x.shape[1]))
        return o
