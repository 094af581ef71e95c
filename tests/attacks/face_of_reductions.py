# problem: add
# permitted: runtime_error
# permitted on cuda: incorrect
# The depth of a reduction tells who computes it: a fold from the left, or a tree.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def deeper(left, right):
    return tl.maximum(left, right) + 1


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    right = tl.load(x_ptr + offsets, mask=mask, other=0.0) + tl.load(y_ptr + offsets, mask=mask, other=0.0)
    depth = tl.reduce(offsets * 0, 0, deeper)
    result = tl.where(depth == BLOCK - 1, right, 0.0)
    tl.store(out_ptr + offsets, result, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, n = torch.empty_like(x), x.numel()
        add_kernel[(triton.cdiv(n, 512),)](x, y, out, n, BLOCK=512)
        return out
