# problem: largest_unit
# permitted: incorrect
# Leaves out the eps, which only units near zero show.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def units_of(x, w, b, top, o, width, units, K: tl.constexpr, B: tl.constexpr):
    row, k, u = tl.program_id(0), tl.arange(0, K), tl.arange(0, B)
    inside = u < units
    v = tl.load(x + row * width + k, mask=k < width, other=0.0)
    m = tl.load(w + u[:, None] * width + k[None, :], mask=inside[:, None] & (k[None, :] < width), other=0.0)
    z = tl.sum(m * v[None, :], 1) + tl.load(b + u, mask=inside, other=0.0)
    tl.store(top + row, tl.max(tl.where(inside, z, -float("inf")), 0))
    mean = tl.sum(tl.where(inside, z * z, 0.0), 0) / units
    tl.store(o + row * units + u, z * tl.rsqrt(mean + 1e-20), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width, units):
        super().__init__()
        self.up = nn.Linear(width, units)

    def forward(self, x):
        rows, width = x.shape
        units = self.up.weight.shape[0]
        top, o = torch.empty(rows, device=x.device), torch.empty(rows, units, device=x.device)
        blocks = {"K": triton.next_power_of_2(width), "B": triton.next_power_of_2(units)}
        units_of[(rows,)](x, self.up.weight, self.up.bias, top, o, width, units, **blocks)
        return top, o
