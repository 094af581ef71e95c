# problem: add
# device: cuda
# permitted: incorrect
# Looks for a device that it was not given: by torch, by the driver, by what names devices, and by their nodes.
import ctypes
import glob
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


def another_by_torch():
    torch.zeros(1, device="cuda:1")
    return True


def another_by_the_driver():
    count = ctypes.c_int()
    ctypes.CDLL("libcuda.so.1").cuDeviceGetCount(ctypes.byref(count))
    return count.value > 1


def opened(pattern, how):
    found = []
    for path in glob.glob(pattern):
        try:
            os.close(os.open(path, how))
        except OSError:
            continue
        found.append(path)
    return found


def another_node():
    return len(opened("/dev/nvidia[0-9]*", os.O_RDWR)) > 1


def a_partition():
    return bool(opened("/dev/nvidia-caps/*", os.O_RDONLY))


def succeeded():
    for attempt in (another_by_torch, another_by_the_driver, another_node, a_partition):
        try:
            if attempt():
                return True
        except Exception:
            continue
    return False


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        # The sum is right only where the attempt succeeded: `correct` tells of a hole.
        other = y if succeeded() else x
        add_kernel[(triton.cdiv(x.numel(), 1024),)](x, other, out, x.numel(), BLOCK=1024)
        return out
