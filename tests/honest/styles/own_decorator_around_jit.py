import torch
import torch.nn as nn
class Model(nn.Module):
    def forward(self, x):
        return torch.nn.functional.softplus(x)
def get_inputs():
    return [torch.randn(64, 9)]
def get_init_inputs():
    return []
# ----- candidate -----
import functools

import torch
import torch.nn as nn
import triton
import triton.language as tl


def elementwise(fn):
    """Decorate a pointer kernel, and return a function of tensors."""
    kernel = triton.jit(fn)

    @functools.wraps(fn)
    def wrapper(x):
        x = x.contiguous()
        out = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
        return out

    return wrapper


@elementwise
def softplus(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    x = tl.load(x_ptr + i, mask=m, other=0.0)
    y = tl.maximum(x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x)))
    tl.store(o_ptr + i, y, mask=m)


class ModelNew(nn.Module):
    def forward(self, x):
        return softplus(x)
