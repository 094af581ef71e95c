"""Matrix product, a bias, ReLU: one kernel after torch's layer, in place."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

BLOCK_SIZE = 2048


@triton.jit
def tail_kernel(x_ptr, bias_ptr, columns, BLOCK: tl.constexpr):
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < columns
    place = x_ptr + tl.program_id(0).to(tl.int64) * columns + at
    bias = tl.load(bias_ptr + at, mask=inside, other=0.0)
    x = tl.load(place, mask=inside, other=0.0)
    x = x + bias
    x = tl.where(x < 0.0, 0.0, x)
    tl.store(place, x, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, bias_shape):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features, bias=False)
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x):
        x = self.gemm(x)
        rows, columns = x.shape
        grid = (rows, triton.cdiv(columns, BLOCK_SIZE))
        tail_kernel[grid](x, self.bias, columns, BLOCK=BLOCK_SIZE)
        return x
