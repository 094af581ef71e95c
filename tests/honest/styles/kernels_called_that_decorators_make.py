import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x, y):
        return F.relu6(x) * y.clamp(-1.0, 1.0) + 0.5


def get_inputs():
    return [3 * torch.randn(9, 70), torch.randn(9, 70)]


def get_init_inputs():
    return []

# ----- candidate -----
import functools

import torch
import torch.nn as nn
import triton
import triton.language as tl


def device_function(function):
    return triton.jit(function)


def compiled(**options):
    def decorate(function):
        return triton.jit(**options)(function)

    return decorate


class Kernels:
    def __init__(self):
        self.known = {}

    def register(self, name):
        def decorate(function):
            self.known[name] = triton.jit(function)
            return self.known[name]

        return decorate


fast = functools.partial(triton.jit, noinline=False)
kernels = Kernels()


@device_function
def relu6(value):
    return tl.minimum(tl.maximum(value, 0.0), 6.0)


@fast
def bounded(value, low: tl.constexpr, high: tl.constexpr):
    return tl.minimum(tl.maximum(value, low), high)


@compiled(noinline=False)
def gated(x, y):
    return relu6(x) * bounded(y, -1.0, 1.0)


@kernels.register("shift")
def shifted(value, by: tl.constexpr):
    return value + by


@kernels.register("main")
def main_kernel(x_ptr, y_ptr, out_ptr, n, combine: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, shifted(combine(x, y), 0.5), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        n = out.numel()
        kernels.known["main"][(triton.cdiv(n, 128),)](x, y, out, n, gated, BLOCK=128)
        return out
