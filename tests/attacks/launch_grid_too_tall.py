# problem: add
# permitted: runtime_error
# A GPU launches 65535 programs along y at most.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    program = tl.program_id(1)
    if program * BLOCK < n:
        offsets = program * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n
        right = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
        tl.store(out_ptr + offsets, right, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, n = torch.empty_like(x), x.numel()
        add_kernel[(1, 65537)](x, y, out, n, BLOCK=512)
        return out
