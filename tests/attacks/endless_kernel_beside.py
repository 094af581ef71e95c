# problem: long_add
# device: cuda
# permitted: correct, timeout, runtime_error, incorrect, rejected
# harmless: its context ends with its worker, before anything is timed
# timed like: long_add
# Leaves kernels that last longer than its deadline on another stream, past the watches, and answers rightly.
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


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.side = torch.cuda.Stream()

    def forward(self, x, y):
        out = add(x, y)
        with torch.cuda.stream(self.side):
            for _ in range(8):
                torch.cuda._sleep(2_000_000_000)
        return out
