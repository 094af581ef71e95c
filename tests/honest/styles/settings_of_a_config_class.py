import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x):
        return torch.where(x > 0, x, self.slope * x) + 0.5


def get_inputs():
    return [torch.randn(37, 96)]


def get_init_inputs():
    return [0.2]

# ----- candidate -----
import json
import math
import os

import torch
import torch.nn as nn
import triton
import triton.language as tl


class Defaults:
    offset = 0.0

    def __init__(self, **given):
        vars(self).update(given)


class Settings(Defaults):
    block = 128

    @property
    def halves(self):
        return self.offset * 2


SETTINGS = Settings(offset=0.25)
TUNED = json.loads('{"block": 256, "unroll": [1, 2]}')
TUNED.update(unroll=TUNED["unroll"][1:])

OFFSET = tl.constexpr(SETTINGS.halves)
LARGEST = tl.constexpr(torch.finfo(torch.float32).max)
UNROLL = tl.constexpr(sum(TUNED["unroll"]))
if os.cpu_count() > 10_000:
    SHIFT = tl.constexpr(1)
else:
    SHIFT = tl.constexpr(math.prod([0, *TUNED["unroll"]]))


@triton.jit
def clipped(x):
    return tl.minimum(x, LARGEST)


@triton.jit
def leaky_kernel(x_ptr, out_ptr, n, slope, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK * UNROLL
    for step in tl.static_range(UNROLL):
        at = start + step * BLOCK + tl.arange(0, BLOCK)
        x = clipped(tl.load(x_ptr + at, mask=at < n, other=0.0))
        tl.store(out_ptr + at + SHIFT, tl.where(x > 0, x, slope * x) + OFFSET, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        block = TUNED["block"]
        grid = (triton.cdiv(x.numel(), block * sum(TUNED["unroll"])),)
        leaky_kernel[grid](x, out, x.numel(), self.slope, BLOCK=block)
        return out
