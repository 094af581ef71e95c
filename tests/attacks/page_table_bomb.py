# problem: add
# permitted: incorrect, runtime_error
# Reads one byte of every 2 MiB of a terabyte: no data of its own, but a page table of the kernel for each.
import ctypes
import mmap

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


def succeeded():
    LIBC = ctypes.CDLL(None, use_errno=True)
    LIBC.mmap.restype = ctypes.c_ssize_t
    LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    for _ in range(1024):
        address = LIBC.mmap(None, 1 << 30, 1, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_NORESERVE, -1, 0)
        if address == -1:
            return False
        LIBC.madvise(ctypes.c_void_p(address), ctypes.c_size_t(1 << 30), 15)
        for offset in range(0, 1 << 30, 2 << 20):
            ctypes.string_at(address + offset, 1)
    return True


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        # The sum is right only where the attempt succeeded: `correct` tells of a hole.
        other = y if succeeded() else x
        add_kernel[(triton.cdiv(x.numel(), 1024),)](x, other, out, x.numel(), BLOCK=1024)
        return out
