# problem: add
# permitted: runtime_error
# permitted on cuda: incorrect, runtime_error
# Reads past the end of its inputs, where the expected output may lie, and returns what it finds.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def beyond_kernel(y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(y_ptr + n + offsets, mask=mask), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        n = x.numel()
        beyond_kernel[(triton.cdiv(n, 1024),)](y, out, n, BLOCK=1024)
        return out
