# problem: remainder
# missed: by about 4 evaluations of 100
# A remainder is written as %, which on a chip is wrong beside multiples and for large quotients.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def remainder_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=1.0)
    y = tl.load(y_ptr + offsets, mask=mask, other=1.0)
    tl.store(out_ptr + offsets, x % y, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, n = torch.empty_like(x), x.numel()
        remainder_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
        return out
