import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return {"now": 3 * x, "next": 3 * x}


def get_inputs():
    return [torch.randn(9, 30)]


def get_init_inputs():
    return []


# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def triple(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n, other=0)
    tl.store(out + i, 3 * value, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        both = torch.empty((2, *x.shape), device=x.device)
        for out in both.unbind():
            triple[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128)
        return {"now": both[0], "next": both[1]}
