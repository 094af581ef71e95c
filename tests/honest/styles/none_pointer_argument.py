import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x * 1.5


def get_inputs():
    return [torch.randn(250)]


def get_init_inputs():
    return []
# ----- candidate -----
"""An optional pointer that is None here, as general kernels have them."""
import torch
import triton
import triton.language as tl


@triton.jit
def scale_add(x_ptr, bias_ptr, y_ptr, scale, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(x_ptr + i, mask=i < n) * scale
    if bias_ptr is not None:
        y += tl.load(bias_ptr + i, mask=i < n)
    tl.store(y_ptr + i, y, mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        scale_add[(triton.cdiv(x.numel(), 64),)](x, None, y, 1.5, x.numel(), BLOCK=64)
        return y
