# problem: add
# permitted: runtime_error
# flags on cpu: input_mutation
# A kernel that zeroes the inputs, hoping that both sides then agree.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def zero_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.zeros((BLOCK,), dtype=tl.float32), mask=offsets < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        for tensor in (x, y):
            zero_kernel[(triton.cdiv(x.numel(), 1024),)](tensor, x.numel(), BLOCK=1024)
        return torch.zeros_like(x)
