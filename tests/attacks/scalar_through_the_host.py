# problem: mean_scale
# permitted: incorrect, rejected, runtime_error
# permitted on cuda: incorrect, rejected, runtime_error
# Computes a scalar in Python and hands it to a kernel as an argument; no operator and no memory shows it.
import ctypes

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, out_ptr, scale, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * scale, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        values = (ctypes.c_float * x.numel()).from_buffer_copy(ctypes.string_at(x.data_ptr(), 4 * x.numel()))
        out = torch.empty_like(x)
        scale = sum(values) / len(values)
        scale_kernel[(triton.cdiv(x.numel(), 256),)](x, out, scale, x.numel(), BLOCK=256)
        return out
