# problem: add
# permitted: incorrect
# machine: x86_64
# Reads and writes memory by process number: even its own is none of its business that way.
import ctypes
import os
import struct

import torch
import torch.nn as nn
import triton
import triton.language as tl

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long


def call(number, *arguments):
    return LIBC.syscall(ctypes.c_long(number), *(ctypes.c_long(value) for value in arguments))


def text(value):
    return ctypes.cast(ctypes.c_char_p(value), ctypes.c_void_p).value


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def succeeded():
    here, there = ctypes.create_string_buffer(8), ctypes.create_string_buffer(8)
    local = struct.pack("<2Q", ctypes.addressof(here), 8)
    remote = struct.pack("<2Q", ctypes.addressof(there), 8)
    pids = [os.getpid(), os.getppid()]
    return max(call(number, pid, text(local), 1, text(remote), 1, 0) for number in (310, 311) for pid in pids) >= 0


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        # The sum is right only where the attempt succeeded: `correct` tells of a hole.
        other = y if succeeded() else x
        add_kernel[(triton.cdiv(x.numel(), 1024),)](x, other, out, x.numel(), BLOCK=1024)
        return out
