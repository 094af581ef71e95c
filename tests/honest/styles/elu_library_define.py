import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return nn.functional.elu(x, alpha=1.3)


def get_inputs():
    return [torch.randn(6, 5, 29)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.library import Library

lib = Library("house_ops", "DEF")
lib.define("elu(Tensor x, float alpha=1.0) -> Tensor")


@triton.jit
def elu_kernel(x_ptr, o_ptr, alpha, numel, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < numel, other=0.0)
    tl.store(o_ptr + i, tl.where(x > 0, x, alpha * (tl.exp(tl.minimum(x, 0.0)) - 1.0)), mask=i < numel)


def elu_cuda(x, alpha=1.0):
    out = torch.empty_like(x, device="cuda")
    elu_kernel[(triton.cdiv(x.numel(), 64),)](x, out, alpha, x.numel(), BLOCK=64)
    return out


lib.impl("elu", elu_cuda, "CUDA")


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.ops.house_ops.elu(x, 1.3)
