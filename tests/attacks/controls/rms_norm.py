# problem: rms_norm
# A row in a block, scaled by the root of its mean square and by a parameter.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm_kernel(x_ptr, weight_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=0.0)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / columns + eps)
    tl.store(out_ptr + row * columns + column, x * scale * tl.load(weight_ptr + column, mask=mask), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))

    def forward(self, x):
        out, columns = torch.empty_like(x), x.shape[-1]
        block = triton.next_power_of_2(columns)
        norm_kernel[(x.numel() // columns,)](x, self.weight, out, columns, 1e-6, BLOCK=block)
        return out
