import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.softplus(x, beta=2.0)


def get_inputs():
    return [torch.randn(777)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl
from triton.language.extra.libdevice import log1p


@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def softplus_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        x = tl.load(x_ptr + i)
    else:
        x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    z = 2.0 * x
    y = (tl.maximum(z, 0.0) + log1p(tl.exp(-tl.abs(z)))) * 0.5
    if EVEN:
        tl.store(y_ptr + i, y)
    else:
        tl.store(y_ptr + i, y, mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        softplus_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y
