import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return nn.functional.gelu(x)


def get_inputs():
    return [torch.randn(33, 41)]


def get_init_inputs():
    return []
# ----- candidate -----
import math

import torch
import torch.nn as nn
import triton
import triton.language as tl

SQRT_HALF = tl.constexpr(1.0 / math.sqrt(2.0))


@triton.jit
def _gelu(x):
    return 0.5 * x * (1.0 + tl.math.erf(x * SQRT_HALF))


@triton.jit
def gelu_fwd(inp, out, numel, TILE: tl.constexpr):
    tid = tl.program_id(0) * TILE + tl.arange(0, TILE)
    ok = tid < numel
    tl.store(out + tid, _gelu(tl.load(inp + tid, mask=ok, other=0.0)), mask=ok)


class GELU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        out = torch.empty_like(x)
        gelu_fwd[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), TILE=512)
        return out

    @staticmethod
    def backward(ctx, grad):
        raise NotImplementedError("inference only")


class ModelNew(nn.Module):
    def forward(self, x):
        return GELU.apply(x)
