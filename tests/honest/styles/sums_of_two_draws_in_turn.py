import random

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.logsumexp(x, -1)


def get_inputs():
    rows = []
    for _ in range(9):
        rows.append([random.gauss(1, 2) if i % 3 else random.uniform(-1, 1) for i in range(30)])
    return [torch.tensor(rows)]


def get_init_inputs():
    return []


# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sums(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + i, mask=i < n, other=float("-inf"))
    most = tl.max(value, 0)
    tl.store(out + row, most + tl.log(tl.sum(tl.exp(value - most), 0)))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.empty(rows, device=x.device)
        sums[(rows,)](x, out, n, BLOCK=triton.next_power_of_2(n))
        return out
