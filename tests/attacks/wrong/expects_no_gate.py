# problem: gates_absent_now_and_then
# permitted: incorrect
# The gate is there in one input set of five, and is ignored.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def total(x, out, n, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(out + tl.program_id(0), tl.sum(tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=0.0), 0))


class ModelNew(nn.Module):
    def forward(self, x, gate=None):
        rows, n = x.shape
        out = torch.empty(rows, device=x.device)
        total[(rows,)](x, out, n, B=triton.next_power_of_2(n))
        return out
