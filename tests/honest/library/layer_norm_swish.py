import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return F.silu(self.norm(x))


def get_inputs():
    return [torch.randn(6, 40)]


def get_init_inputs():
    return [40]


# ----- candidate -----
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def swish_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x / (1.0 + tl.exp(-x)), mask=i < n)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        norm = self.norm
        y = F.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
        out = torch.empty_like(y)
        swish_kernel[(triton.cdiv(y.numel(), 64),)](y, out, y.numel(), BLOCK=64)
        return out
