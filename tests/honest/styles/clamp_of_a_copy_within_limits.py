import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.clamp(x, 0.0, 1.0)


def get_inputs():
    return [torch.rand(64, 33)]


def get_init_inputs():
    return []


# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def clamp_in_place(y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, tl.minimum(tl.maximum(y, 0.0), 1.0), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = x.clone()
        clamp_in_place[(triton.cdiv(y.numel(), 128),)](y, y.numel(), BLOCK=128)
        return y
