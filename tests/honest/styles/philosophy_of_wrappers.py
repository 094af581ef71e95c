import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.softshrink(x, 0.4)


def get_inputs():
    return [torch.randn(31, 13)]


def get_init_inputs():
    return []
# ----- candidate -----
"""A small framework: an operator class, a planner, and a registry of devices."""
from __future__ import annotations

import abc
import functools
from typing import Any, Generic, TypeVar

import torch
import triton
import triton.language as tl

T = TypeVar("T")


@triton.jit
def softshrink_kernel(x_ptr, y_ptr, threshold, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    y = tl.where(x > threshold, x - threshold, tl.where(x < -threshold, x + threshold, 0.0))
    tl.store(y_ptr + i, y, mask=i < n)


class Operator(abc.ABC, Generic[T]):
    @abc.abstractmethod
    def plan(self, x: torch.Tensor) -> T: ...

    @abc.abstractmethod
    def execute(self, x: torch.Tensor, plan: T) -> torch.Tensor: ...

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.execute(x, self.plan(x))


class SoftShrink(Operator[dict]):
    def __init__(self, threshold: float):
        self.threshold = threshold

    @functools.cached_property
    def sms(self) -> int:
        return torch.cuda.get_device_properties(0).multi_processor_count

    def plan(self, x: torch.Tensor) -> dict[str, Any]:
        block = 128 if x.numel() < 128 * self.sms else 1024
        return {"grid": (triton.cdiv(x.numel(), block),), "BLOCK": block}

    def execute(self, x, plan):
        y = torch.empty_like(x)
        softshrink_kernel[plan["grid"]](x, y, self.threshold, x.numel(), BLOCK=plan["BLOCK"])
        return y


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.op = SoftShrink(0.4)

    def forward(self, x):
        return self.op(x)
