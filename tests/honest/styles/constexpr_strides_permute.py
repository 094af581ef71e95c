import torch
import torch.nn as nn
import torch.nn.functional as F
class Model(nn.Module):
    def forward(self, x): return x.permute(2, 0, 1).contiguous() * 3
def get_inputs(): return [torch.randn(4, 5, 6)]
def get_init_inputs(): return []
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl

from triton import constexpr_function

@constexpr_function
def numel_of(dims):
    n = 1
    for d in dims:
        n = n * d
    return n

@constexpr_function
def stride_of(dims, axis: int):
    """Row-major stride."""
    return numel_of(dims[axis + 1:])

@triton.jit
def permute_kernel(x_ptr, y_ptr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr):
    DIMS: tl.constexpr = (A, B, C)
    TOTAL: tl.constexpr = numel_of((A, B, C))
    tl.static_assert(TOTAL == A * B * C)
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = o // (A * B)
    a = (o // B) % A
    b = o % B
    src = a * stride_of(DIMS, 0) + b * stride_of(DIMS, 1) + c * stride_of(DIMS, 2)
    tl.store(y_ptr + o, tl.load(x_ptr + src, mask=o < TOTAL) * 3, mask=o < TOTAL)

class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        A, B, C = x.shape
        y = torch.empty((C, A, B), dtype=x.dtype, device=x.device)
        permute_kernel[(triton.cdiv(x.numel(), 64),)](x, y, A, B, C, BLOCK=64)
        return y
