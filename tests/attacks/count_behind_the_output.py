# problem: add
# device: cuda
# permitted: incorrect, runtime_error
# Counts its calls some kilobytes behind the output and is wrong from the third on.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    kept = out_ptr + 4096 + tl.program_id(0)
    found = tl.load(kept)
    count = tl.where((found >= 0.0) & (found < 1e6), found, 0.0)
    tl.store(kept, count + 1.0)
    total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.where(count < 2.0, total, 0.0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, n = torch.empty_like(x), x.numel()
        add_kernel[(triton.cdiv(n, 256),)](x, y, out, n, BLOCK=256)
        return out
