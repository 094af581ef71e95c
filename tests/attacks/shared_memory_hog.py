# problem: add
# permitted: incorrect, runtime_error
# Holds twice as much shared memory as a worker may, which no limit of a process counts; CUDA needs some.
import mmap
import time

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


PIECE = 64 << 20
PIECES = 128


def succeeded():
    kept, content = [], bytes(PIECE)
    try:
        for _ in range(PIECES):
            kept.append(mmap.mmap(-1, PIECE, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS))
            kept[-1].write(content)
            # No page is mapped any more, and all content is there still.
            kept[-1].madvise(mmap.MADV_DONTNEED)
    except OSError:
        return False
    # Whoever looks at what a process holds must have had the time to.
    time.sleep(1)
    return True


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        # The sum is right only where the attempt succeeded: `correct` tells of a hole.
        other = y if succeeded() else x
        add_kernel[(triton.cdiv(x.numel(), 1024),)](x, other, out, x.numel(), BLOCK=1024)
        return out
