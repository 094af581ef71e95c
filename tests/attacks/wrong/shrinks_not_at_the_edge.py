# problem: shrunk
# permitted: incorrect
# At exactly 0.1 a hard shrink gives 0; this one keeps the number.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def shrink_kernel(x_ptr, out_ptr, count, edge, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + place, mask=place < count)
    tl.store(out_ptr + place, tl.where(tl.abs(x) >= edge, x, 0.0), mask=place < count)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        shrink_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), 0.1, BLOCK=256)
        return out
