# problem: add
# permitted: compile_error
# A field of a named tuple has the name under which a tensor keeps what the interpreter computes with.
from typing import NamedTuple

import torch
import torch.nn as nn
import triton
import triton.language as tl


class Parts(NamedTuple):
    handle: tl.tensor
    data: tl.tensor


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    right = tl.load(x_ptr + offsets, mask=mask, other=0.0) + tl.load(y_ptr + offsets, mask=mask, other=0.0)
    parts = Parts(right, right)
    right = parts.handle + right.handle.data * 0.0
    tl.store(out_ptr + offsets, right, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, n = torch.empty_like(x), x.numel()
        add_kernel[(triton.cdiv(n, 512),)](x, y, out, n, BLOCK=512)
        return out
