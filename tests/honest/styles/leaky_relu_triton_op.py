import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, negative_slope):
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, x):
        return nn.functional.leaky_relu(x, self.negative_slope)


def get_inputs():
    return [torch.randn(10, 77)]


def get_init_inputs():
    return [0.2]
# ----- candidate -----
import torch
import triton
import triton.language as tl
from torch.library import triton_op, wrap_triton


@triton.jit
def leaky(x_ptr, y_ptr, slope, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, tl.where(x < 0, x * slope, x), mask=at < n)


@triton_op("acme_kernels::leaky_relu", mutates_args={})
def leaky_relu(x: torch.Tensor, slope: float = 0.01) -> torch.Tensor:
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    wrap_triton(leaky)[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, slope, x.numel(), BLOCK=128)
    return y


class ModelNew(torch.nn.Module):
    def __init__(self, negative_slope):
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, x):
        return torch.ops.acme_kernels.leaky_relu(x, self.negative_slope)
