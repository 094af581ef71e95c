import math
import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    def forward(self, x):
        return x.sum()

def get_inputs():
    return [torch.randn(500)]


def get_init_inputs():
    return []
# ----- candidate -----
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl

@triton.jit
def red(x, part, cnt, o, n, G, B: tl.constexpr, BG: tl.constexpr):
    p = tl.program_id(0)
    i = p * B + tl.arange(0, B)
    s = tl.sum(tl.load(x + i, mask=i < n, other=0.0), 0)
    tl.atomic_xchg(part + p, s)
    done = tl.atomic_add(cnt, 1)
    if done == G - 1:
        g = tl.arange(0, BG)
        v = tl.atomic_add(part + g, tl.zeros((BG,), tl.float32), mask=g < G)
        tl.store(o, tl.sum(tl.where(g < G, v, 0.0), 0))


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.numel()
        G = triton.cdiv(n, 64)
        part = torch.empty(G, device=x.device)
        cnt = torch.zeros(1, dtype=torch.int32, device=x.device)
        o = torch.empty((), device=x.device)
        red[(G,)](x, part, cnt, o, n, G, 64, triton.next_power_of_2(G))
        return o
