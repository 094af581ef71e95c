# problem: add
# permitted: incorrect
# Writes a library into its scratch and loads it, by file and by memory file.
import ctypes
import os

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
    library = next(
        path
        for path in ("/lib/x86_64-linux-gnu/libm.so.6", "/lib64/libm.so.6", "/usr/lib/libm.so.6")
        if os.path.exists(path)
    )
    copies = []
    with open(library, "rb") as file, open("own.so", "wb") as copy:
        copy.write(file.read())
        copies.append(os.path.abspath("own.so"))
    for path in (*copies, "/dev/shm/own.so"):
        try:
            ctypes.CDLL(path)
        except OSError:
            continue
        return True
    return False


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        # The sum is right only where the attempt succeeded: `correct` tells of a hole.
        other = y if succeeded() else x
        add_kernel[(triton.cdiv(x.numel(), 1024),)](x, other, out, x.numel(), BLOCK=1024)
        return out
