# problem: add
# Grids as lists, which a launch on a GPU takes as it takes tuples.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, total, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        first, out, n = torch.empty_like(x), torch.empty_like(x), x.numel()
        add_kernel[[triton.cdiv(n, 256)]](x, y, first, n, BLOCK=256)
        add_kernel[lambda meta: [triton.cdiv(n, meta["BLOCK"]), 1]](first, torch.zeros_like(y), out, n, BLOCK=256)
        return out
