import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.erf(x)


def get_inputs():
    return [torch.randn(101)]


def get_init_inputs():
    return []
# ----- candidate -----
try:
    import triton
    import triton.language as tl

    HAS_TRITON = True
except ImportError:
    HAS_TRITON = False

import torch

if not HAS_TRITON:
    raise RuntimeError("this module needs Triton")


@triton.jit
def erf_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.erf(tl.load(x + i, mask=i < n, other=0.0)), mask=i < n)


class ModelNew(torch.nn.Module):
    @torch.no_grad()
    @torch.amp.autocast("cuda", enabled=False)
    def forward(self, x):
        y = torch.empty(x.shape, dtype=x.dtype, device=f"cuda:{x.get_device()}")
        erf_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
        return y
