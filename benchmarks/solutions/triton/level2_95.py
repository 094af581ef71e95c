"""Matrix product, an addition, Swish, tanh, GELU, clipping: one kernel after torch's layer, in place."""

import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice

BLOCK_SIZE = 2048


@triton.jit
def tail_kernel(x_ptr, added_ptr, columns, BLOCK: tl.constexpr):
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < columns
    place = x_ptr + tl.program_id(0).to(tl.int64) * columns + at
    added = tl.load(added_ptr + at, mask=inside, other=0.0)
    x = tl.load(place, mask=inside, other=0.0)
    x = x + added
    x = libdevice.tanh(tl.sigmoid(x) * x)
    x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    x = tl.minimum(tl.maximum(x, -1.0), 1.0)
    tl.store(place, x, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, add_value_shape):
        super().__init__()
        self.matmul = nn.Linear(in_features, out_features)
        self.add_value = nn.Parameter(torch.randn(add_value_shape))

    def forward(self, x):
        x = self.matmul(x)
        rows, columns = x.shape
        grid = (rows, triton.cdiv(columns, BLOCK_SIZE))
        tail_kernel[grid](x, self.add_value, columns, BLOCK=BLOCK_SIZE)
        return x
