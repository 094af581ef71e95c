import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2


def get_inputs():
    return [torch.randn(64, 65)]


def get_init_inputs():
    return []


# ----- candidate -----
import functools
import torch
import torch.nn as nn
import triton
import triton.language as tl


class Registry:
    def __init__(self):
        self.kernels = {}

    def kernel(self, name):
        def wrap(fn):
            self.kernels[name] = triton.jit(fn)
            return self.kernels[name]

        return wrap


registry = Registry()


@registry.kernel("relu")
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask, other=0.0)
    tl.store(y_ptr + offs, tl.maximum(x, 0.0) * 2, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        n = x.numel()
        kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
        return y
