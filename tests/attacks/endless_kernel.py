# problem: add
# permitted: timeout
# permitted on cuda: timeout, incorrect
# seconds: 2
# A kernel that never ends.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def spin_kernel(out_ptr, n):
    i = 0
    while i < n:
        i = i * 1
    tl.store(out_ptr, 0.0)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        spin_kernel[(1,)](out, x.numel())
        return out
