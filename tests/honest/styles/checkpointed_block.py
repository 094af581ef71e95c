import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.log1p(x * x)


def get_inputs():
    return [torch.randn(400)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl
from torch.utils.checkpoint import checkpoint


@triton.jit
def log_square(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    s = v * v
    # Of small squares the logarithm is taken as a series.
    tl.store(y + i, tl.where(s < 1e-2, s * (1 - s * (0.5 - s * (1.0 / 3 - s * 0.25))), tl.log(1 + s)), mask=i < n)


def block(x):
    y = torch.empty_like(x)
    log_square[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
    return y


class ModelNew(torch.nn.Module):
    def forward(self, x):
        with torch.no_grad():
            return checkpoint(block, x, use_reentrant=False)
