# problem: add
# permitted: rejected
# permitted on cuda: rejected, runtime_error
# flags on cpu: no_kernel
# Asks the kernel to make the inputs' mapping writable, and to map their file again.
import ctypes
import mmap
import os

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        libc = ctypes.CDLL(None, use_errno=True)
        page = x.data_ptr() & ~0xFFF
        assert libc.mprotect(ctypes.c_void_p(page), 4096, 3) != 0, "the sealed mapping became writable"
        for fd in range(3, 64):
            try:
                size = os.fstat(fd).st_size
                if size:
                    mmap.mmap(fd, size, prot=mmap.PROT_WRITE | mmap.PROT_READ)[:4] = b"\0\0\0\0"
            except (OSError, ValueError):
                pass
        return torch.zeros_like(x)
