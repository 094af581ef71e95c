import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, low, high, factor):
        super().__init__()
        self.low, self.high, self.factor = low, high, factor

    def forward(self, x):
        return torch.clamp(x, self.low, self.high) * self.factor


def get_inputs():
    return [torch.randn(40, 25)]


def get_init_inputs():
    return [-0.7, 1.1, 3.0]
# ----- candidate -----
"""A launch configuration as a frozen dataclass and a launcher that is cached by device."""
import logging
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn as nn
import triton
import triton.language as tl

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LaunchConfig:
    block: int
    num_warps: int = 4
    num_stages: int = 2


@triton.jit
def clamp_scale(x_ptr, y_ptr, low, high, factor, n, BLOCK: tl.constexpr):
    idx = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = idx < n
    x = tl.load(x_ptr + idx, mask=mask, other=0.0)
    tl.store(y_ptr + idx, tl.clamp(x, low, high) * factor, mask=mask)


@lru_cache(maxsize=None)
def config_for(capability) -> LaunchConfig:
    logger.info("capability %s", capability)
    return LaunchConfig(block=1024 if capability >= (9, 0) else 512)


class ModelNew(nn.Module):
    def __init__(self, low, high, factor):
        super().__init__()
        self.limits = (float(low), float(high))
        self.factor = float(factor)

    def forward(self, x):
        cfg = config_for(torch.cuda.get_device_capability(x.device))
        x = x.contiguous()
        y = torch.empty_like(x)
        n = x.numel()
        clamp_scale[(triton.cdiv(n, cfg.block),)](
            x, y, *self.limits, self.factor, n, BLOCK=cfg.block, num_warps=cfg.num_warps, num_stages=cfg.num_stages
        )
        return y
