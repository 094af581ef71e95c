# problem: add
# permitted: undecided, incorrect
# permitted on cuda: incorrect
# The bits of a NaN are stored as a float and loaded as an integer.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    right = tl.load(x_ptr + offsets, mask=mask, other=0.0) + tl.load(y_ptr + offsets, mask=mask, other=0.0)
    tl.store(out_ptr + offsets, tl.sqrt(right * 0.0 - 1.0), mask=mask)
    bits = tl.load(out_ptr.to(tl.pointer_type(tl.int32), bitcast=True) + offsets, mask=mask, other=0)
    result = tl.where(bits < 0, right, 0.0)
    tl.store(out_ptr + offsets, result, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, n = torch.empty_like(x), x.numel()
        add_kernel[(triton.cdiv(n, 512),)](x, y, out, n, BLOCK=512)
        return out
