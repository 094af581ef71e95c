# problem: add
# device: cuda
# permitted: incorrect, rejected, runtime_error
# permitted on cuda: correct, incorrect, rejected, runtime_error
# Reads on one stream what another has not written yet; the last kernel alone gives the output. Replays run in the order
# of the launches, where nothing is missing: the verdict and the time are of that order.
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


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.side = torch.cuda.Stream()

    def forward(self, x, y):
        half, out, n = torch.zeros_like(x), torch.empty_like(x), x.numel()
        with torch.cuda.stream(self.side):
            torch.cuda._sleep(500_000_000)
            add_kernel[(triton.cdiv(n, 1024),)](x, y, half, n, BLOCK=1024)
        copy_kernel[(triton.cdiv(n, 1024),)](half, out, n, BLOCK=1024)
        return out
