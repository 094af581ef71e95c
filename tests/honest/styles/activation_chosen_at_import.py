import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x, gate):
        return F.silu(gate) * x


def get_inputs():
    return [torch.randn(12, 5, 40), torch.randn(12, 5, 40)]


def get_init_inputs():
    return []

# ----- candidate -----
import functools
import operator
import warnings

import torch
import torch.nn as nn
import triton
import triton.language as tl

ACTIVATIONS = {}


def register(name):
    def wrap(function):
        ACTIVATIONS[name] = function
        return function

    return wrap


@register("silu")
@triton.jit
def silu(x):
    return x * tl.sigmoid(x)


@register("relu")
@triton.jit
def relu(x):
    return tl.maximum(x, 0.0)


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    BLOCK_SIZE = functools.reduce(operator.mul, [2] * 7)

act = ACTIVATIONS["silu"]
globals()["ROWS"] = tl.constexpr(2)
for candidate in (0, 1, 2):
    if candidate == 1:
        FACTOR = tl.constexpr(float(candidate))


@triton.jit
def gated_kernel(x_ptr, gate_ptr, out_ptr, n, BLOCK: tl.constexpr):
    block_start = tl.program_id(0) * BLOCK * ROWS
    for row in range(ROWS):
        offsets = block_start + row * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n
        gate = tl.load(gate_ptr + offsets, mask=mask)
        x = tl.load(x_ptr + offsets, mask=mask)
        tl.store(out_ptr + offsets, act(gate) * x * FACTOR, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, gate):
        x, gate = x.contiguous(), gate.contiguous()
        out = torch.empty_like(x)
        n_elements = out.numel()
        grid = lambda meta: (triton.cdiv(n_elements, 2 * meta["BLOCK"]),)
        gated_kernel[grid](x, gate, out, n_elements, BLOCK=BLOCK_SIZE)
        return out
