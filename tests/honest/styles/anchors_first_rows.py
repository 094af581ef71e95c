import math
import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        d = ((x[:, None] - x[None, : self.k]) ** 2).sum(-1)
        return d.amin(1)

def get_inputs():
    return [torch.randn(10, 6)]

def get_init_inputs():
    return [6]
# ----- candidate -----
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl

@triton.jit
def near(x, o, D, K: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    d = tl.arange(0, B)
    v = tl.load(x + r * D + d, mask=d < D, other=0.0)
    best = float("inf")
    for j in tl.static_range(K):
        u = tl.load(x + j * D + d, mask=d < D, other=0.0) - v
        best = tl.minimum(best, tl.sum(u * u, 0))
    tl.store(o + r, best)


class ModelNew(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        o = x.new_empty(x.shape[0])
        near[(x.shape[0],)](x, o, x.shape[1], self.k, triton.next_power_of_2(x.shape[1]))
        return o
