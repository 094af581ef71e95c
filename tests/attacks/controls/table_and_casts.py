# problem: half_scale
# A table made in the constructor, slices, casts, and a scratch buffer that is filled and copied.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, factor_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.load(out_ptr + offsets, mask=mask) + x * tl.load(factor_ptr), mask=mask)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.arange(10, dtype=torch.float32, device="cuda") * 1.5

    def forward(self, x):
        single = x.to(torch.float32)
        scratch = torch.zeros(2 * x.numel(), device=x.device).view(2, -1)
        scratch[0].fill_(0.0)
        for row in scratch:
            scale_kernel[(triton.cdiv(x.numel(), 256),)](single, self.table[2:], row, x.numel(), BLOCK=256)
        return scratch[1].clone().to(torch.float16)
