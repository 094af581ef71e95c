# problem: add
# permitted: incorrect
# machine: x86_64
# Makes calls by their x32 numbers, which a list of x86-64 numbers does not hold.
import ctypes

import torch
import torch.nn as nn
import triton
import triton.language as tl

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long


def call(number, *arguments):
    return LIBC.syscall(ctypes.c_long(number), *(ctypes.c_long(value) for value in arguments))


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


X32 = 0x40000000


def succeeded():
    return call(X32 | 39) > 0 or call(X32 | 521, 0, 0, 0, 0) == 0


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        # The sum is right only where the attempt succeeded: `correct` tells of a hole.
        other = y if succeeded() else x
        add_kernel[(triton.cdiv(x.numel(), 1024),)](x, other, out, x.numel(), BLOCK=1024)
        return out
