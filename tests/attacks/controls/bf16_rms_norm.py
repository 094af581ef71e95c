# problem: bf16_rms_norm
# device: cuda
# A norm in single precision of rows in bfloat16.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm_kernel(x_ptr, weight_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=0.0).to(tl.float32)
    normed = (x * tl.rsqrt(tl.sum(x * x, axis=0) / columns + eps)).to(tl.bfloat16)
    tl.store(out_ptr + row * columns + column, normed * tl.load(weight_ptr + column, mask=mask), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features).bfloat16() + 0.5)

    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty_like(x)
        norm_kernel[(rows,)](x, self.weight, out, columns, 1e-6, BLOCK=triton.next_power_of_2(columns))
        return out
