# problem: add
# device: cpu
# permitted: runtime_error
# Scattered offsets are said to be neighbours, which are loaded at once where it is compiled.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    right = tl.load(x_ptr + offsets, mask=mask, other=0.0) + tl.load(y_ptr + offsets, mask=mask, other=0.0)
    back = tl.max_contiguous((offsets // 512) * 512 + 511 - offsets % 512, 8)
    there = back < n
    result = tl.load(x_ptr + back, mask=there, other=0.0) + tl.load(y_ptr + back, mask=there, other=0.0)
    tl.store(out_ptr + back, result, mask=there)
    result = right
    tl.store(out_ptr + offsets, result, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, n = torch.empty_like(x), x.numel()
        add_kernel[(triton.cdiv(n, 512),)](x, y, out, n, BLOCK=512)
        return out
