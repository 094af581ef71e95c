from typing import NamedTuple

import torch


class Extremes(NamedTuple):
    low: torch.Tensor
    high: torch.Tensor


class Model(torch.nn.Module):
    def forward(self, x):
        return Extremes(x.min(dim=1).values, x.max(dim=1).values)


def get_inputs():
    return [torch.randn(15, 48)]


def get_init_inputs():
    return []
# ----- candidate -----
from typing import NamedTuple

import torch
import triton
import triton.language as tl


class Extremes(NamedTuple):
    low: torch.Tensor
    high: torch.Tensor


@triton.jit
def extremes(x, low, high, N, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    tl.store(low + r, tl.min(tl.load(x + r * N + i, mask=i < N, other=float("inf")), 0))
    tl.store(high + r, tl.max(tl.load(x + r * N + i, mask=i < N, other=float("-inf")), 0))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        result = Extremes(low=x.new_empty(x.shape[0]), high=x.new_empty(x.shape[0]))
        extremes[(x.shape[0],)](x, result.low, result.high, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return result
