# problem: add
# device: cuda
# permitted: incorrect
# Takes device memory from the driver itself and looks for anything that whoever had it before has left there.
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


def succeeded():
    driver, piece = ctypes.CDLL("libcuda.so.1"), 64 << 20
    content = ctypes.create_string_buffer(piece)
    for _ in range(16):
        address = ctypes.c_uint64()
        if driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(piece)) != 0:
            return False
        if driver.cuMemcpyDtoH_v2(content, address, ctypes.c_size_t(piece)) != 0:
            return False
        if content.raw.strip(b"\0"):
            return True
    return False


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        # The sum is right only where the attempt succeeded: `correct` tells of a hole.
        other = y if succeeded() else x
        add_kernel[(triton.cdiv(x.numel(), 1024),)](x, other, out, x.numel(), BLOCK=1024)
        return out
