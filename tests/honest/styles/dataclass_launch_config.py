import torch
import torch.nn as nn
import torch.nn.functional as F
class Model(nn.Module):
    def forward(self, x): return F.gelu(x, approximate='tanh')
def get_inputs(): return [torch.randn(17, 65)]
def get_init_inputs(): return []
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl

from dataclasses import dataclass, field
from typing import ClassVar

@dataclass(frozen=True)
class LaunchConfig:
    block_size: int = 256
    num_warps: int = 4
    sqrt_2_over_pi: ClassVar[float] = 0.7978845608028654

CFG = LaunchConfig(block_size=128)
SQRT_2_OVER_PI = tl.constexpr(LaunchConfig.sqrt_2_over_pi)
COEF = tl.constexpr(0.044715)

@triton.jit
def tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1

@triton.jit
def gelu_tanh_kernel(in_ptr, out_ptr, numel, BLOCK: tl.constexpr = CFG.block_size):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < numel
    x = tl.load(in_ptr + offs, mask=mask).to(tl.float32)
    inner = SQRT_2_OVER_PI * (x + COEF * x * x * x)
    tl.store(out_ptr + offs, 0.5 * x * (1 + tanh(inner)), mask=mask)

class ModelNew(nn.Module):
    cfg: LaunchConfig = CFG
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        out = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), self.cfg.block_size),)
        gelu_tanh_kernel[grid](x, out, x.numel(), BLOCK=self.cfg.block_size, num_warps=self.cfg.num_warps)
        return out
