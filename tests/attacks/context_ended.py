# problem: long_add
# device: cuda
# permitted: runtime_error, incorrect, timeout
# permitted detached: correct, runtime_error, incorrect, timeout
# timed like detached: long_add
# harmless: where host code is detached it has no context, and whoever has the device has none of its code
# Ends the device's context under everybody who uses it in its process.
import ctypes

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def add(x, y):
    out = torch.empty_like(x)
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
    return out


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = add(x, y)
        ctypes.CDLL("libcuda.so.1").cuDevicePrimaryCtxReset_v2(0)
        return out
