# problem: losses_by_label
# permitted: incorrect
# Compares labels by >= where the problem has >; logarithms and an order beside that step are rounded or have ties.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def losses(p, label, out, ordered, cols, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    inside = i < cols
    x = tl.load(p + row * cols + i, mask=inside, other=float("inf"))
    t = tl.load(label + row * cols + i, mask=inside, other=0.0)
    safe = tl.where(inside, x, 0.5)
    tl.store(out + row * cols + i, tl.where(t >= 0.4, tl.log(safe), tl.log(1 - safe)), mask=inside)
    tl.store(ordered + row * cols + i, tl.sort(x).to(tl.float16), mask=inside)


class ModelNew(nn.Module):
    def forward(self, p, label):
        rows, cols = p.shape
        out, ordered = torch.empty_like(p), torch.empty(p.shape, device=p.device, dtype=torch.float16)
        losses[(rows,)](p, label, out, ordered, cols, B=triton.next_power_of_2(cols))
        return out, ordered
