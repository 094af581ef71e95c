# problem: jump_at_three_tenths
# permitted: incorrect
# missed: by about 5 evaluations of 100
# At exactly 0.3, rounded to single precision, it takes the other side.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def jump_kernel(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + place, mask=place < count)
    tl.store(out_ptr + place, tl.where(x > 0.3, x * 2.0, -x), mask=place < count)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        jump_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
        return out
