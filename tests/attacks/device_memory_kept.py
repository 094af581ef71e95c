# problem: long_add
# device: cuda
# permitted: correct, rejected, runtime_error
# timed like detached: long_add
# harmless: the judge has its memory before, and this goes back with the worker; host code that is detached gets none
# Takes all memory of the device from the driver, piece by piece, past the allocator, and then answers rightly.
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


def take_all():
    driver, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
    for piece in (1 << 30, 64 << 20, 2 << 20):
        while driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(piece)) == 0:
            pass


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = add(x, y)
        torch.cuda.synchronize()
        take_all()
        return out
