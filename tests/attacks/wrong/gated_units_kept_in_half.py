# problem: sum_of_gated_units
# permitted: incorrect
# missed: by about 15 evaluations of 100
# Keeps the units in float16 before their sum, which hides roundings unless all units round alike.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gated(x, w, b, h, width, units, K: tl.constexpr, B: tl.constexpr):
    row, k, u = tl.program_id(0), tl.arange(0, K), tl.program_id(1) * B + tl.arange(0, B)
    v = tl.load(x + row * width + k, mask=k < width, other=0.0)
    m = tl.load(w + u[:, None] * width + k[None, :], mask=(u[:, None] < units) & (k[None, :] < width), other=0.0)
    z = tl.sum(m * v[None, :], 1) + tl.load(b + u, mask=u < units, other=0.0)
    tl.store(h + row * units + u, 1.0 / (1.0 + tl.exp(-z)), mask=u < units)


@triton.jit
def total(h, o, units, B: tl.constexpr):
    row, u = tl.program_id(0), tl.arange(0, B)
    v = tl.load(h + row * units + u, mask=u < units, other=0.0).to(tl.float32)
    tl.store(o + row, tl.sum(v, 0))


class ModelNew(nn.Module):
    def __init__(self, width, units):
        super().__init__()
        self.up = nn.Linear(width, units)

    def forward(self, x):
        rows, width = x.shape
        units = self.up.weight.shape[0]
        h = torch.empty(rows, units, device=x.device, dtype=torch.float16)
        o = torch.empty(rows, device=x.device)
        block = triton.next_power_of_2(width)
        gated[(rows, triton.cdiv(units, 64))](x, self.up.weight, self.up.bias, h, width, units, K=block, B=64)
        total[(rows,)](h, o, units, B=triton.next_power_of_2(units))
        return o
