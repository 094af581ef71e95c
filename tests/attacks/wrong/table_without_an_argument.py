# problem: added_positions
# permitted: incorrect
# Keeps a table by its length, though it depends on the period too.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def table(t, T, P, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(t + i, (i % P).to(tl.float32), mask=i < T)


@triton.jit
def add(x, t, out, T, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    b = tl.load(t + i % T, mask=i < n, other=0.0)
    tl.store(out + i, v + b, mask=i < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = {}

    def forward(self, x, period):
        T = x.shape[1]
        if T not in self.tables:
            self.tables[T] = torch.empty(T, device=x.device)
            table[(1,)](self.tables[T], T, period, B=triton.next_power_of_2(T))
        out = torch.empty_like(x)
        n = x.numel()
        add[(triton.cdiv(n, 256),)](x, self.tables[T], out, T, n, B=256)
        return out
