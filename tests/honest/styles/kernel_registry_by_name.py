import torch


class Model(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def forward(self, x):
        return getattr(torch.nn.functional, self.kind)(x)


def get_inputs():
    return [torch.randn(28, 12)]


def get_init_inputs():
    return ["softsign"]
# ----- candidate -----
"""A registry of launchers, filled by a decorator."""
from typing import Callable, Dict

import torch
import triton
import triton.language as tl

REGISTRY: Dict[str, Callable] = {}


def register(name):
    def decorate(fn):
        REGISTRY[name] = fn
        return fn

    return decorate


@triton.jit
def softsign_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, x / (1 + tl.abs(x)), mask=i < n)


@triton.jit
def logsigmoid_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, tl.minimum(x, 0.0) - tl.log(1 + tl.exp(-tl.abs(x))), mask=i < n)


@register("softsign")
def _(x, y):
    softsign_kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)


@register("logsigmoid")
def _(x, y):
    logsigmoid_kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)


class ModelNew(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        try:
            self.run = REGISTRY[kind]
        except KeyError as error:
            raise NotImplementedError(kind) from error

    def forward(self, x):
        y = torch.empty_like(x)
        self.run(x, y)
        return y
