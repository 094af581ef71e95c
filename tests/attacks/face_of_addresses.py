# problem: add
# permitted: runtime_error
# permitted on cuda: incorrect
# Memory begins at multiples of 512 bytes on a GPU and elsewhere on a CPU.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    offsets = program * BLOCK + lane
    mask = offsets < n
    right = tl.load(x_ptr + offsets, mask=mask, other=0.0) + tl.load(y_ptr + offsets, mask=mask, other=0.0)
    address = x_ptr.to(tl.int64) | y_ptr.to(tl.int64) | out_ptr.to(tl.int64)
    result = tl.where((address & 511) != 0, right, 0.0)
    tl.store(out_ptr + offsets, result, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, n = torch.empty_like(x), x.numel()
        add_kernel[(triton.cdiv(n, 512),)](x, y, out, n, BLOCK=512)
        return out
