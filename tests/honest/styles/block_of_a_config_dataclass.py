from dataclasses import dataclass, field
from enum import Enum
from types import SimpleNamespace

import torch
import torch.nn as nn
import torch.nn.functional as F


class Act(Enum):
    GELU = "gelu"
    SILU = "silu"


@dataclass
class BlockConfig:
    width: int = 24
    expansion: int = 2
    norm_eps: float = 1e-6
    act: Act = Act.SILU
    residual: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(scale=0.5, on=True))

    @property
    def hidden(self) -> int:
        return self.width * self.expansion


class Model(nn.Module):
    """RMS norm, a gated unit of the configured activation, a scaled residual."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.weight = nn.Parameter(torch.ones(config.width))
        self.gate = nn.Parameter(torch.randn(config.hidden) * 0.1 + 1.0)

    def forward(self, x):
        normed = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.config.norm_eps) * self.weight
        wide = normed.repeat(1, self.config.expansion) * self.gate
        wide = F.silu(wide) if self.config.act is Act.SILU else F.gelu(wide)
        out = wide.unflatten(1, (self.config.expansion, self.config.width)).sum(1)
        return out + x * self.config.residual.scale if self.config.residual.on else out


def get_inputs():
    return [torch.randn(13, 24)]


def get_init_inputs():
    return [BlockConfig()]
# ----- candidate -----
"""As in repositories of language models: one configuration object goes through the whole module."""
import dataclasses

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def block_row(x_ptr, w_ptr, g_ptr, y_ptr, width, eps, scale, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    inside = col < width
    x = tl.load(x_ptr + row * width + col, mask=inside, other=0.0)
    normed = x * tl.rsqrt(tl.sum(x * x, axis=0) / width + eps) * tl.load(w_ptr + col, mask=inside, other=0.0)
    total = tl.zeros((BLOCK,), tl.float32)
    for part in tl.static_range(PARTS):
        wide = normed * tl.load(g_ptr + part * width + col, mask=inside, other=0.0)
        total += wide * tl.sigmoid(wide)
    tl.store(y_ptr + row * width + col, total + scale * x, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert config.act.value == "silu", dataclasses.asdict(config)
        self.config = dataclasses.replace(config)
        self.weight = nn.Parameter(torch.ones(config.width))
        self.gate = nn.Parameter(torch.randn(config.hidden) * 0.1 + 1.0)

    def forward(self, x):
        cfg, x = self.config, x.contiguous()
        y = torch.empty_like(x)
        scale = cfg.residual.scale if cfg.residual.on else 0.0
        block = triton.next_power_of_2(cfg.width)
        block_row[(x.shape[0],)](
            x, self.weight, self.gate, y, cfg.width, cfg.norm_eps, scale, PARTS=cfg.expansion, BLOCK=block
        )
        return y
