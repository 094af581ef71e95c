# problem: long_add
# device: cuda
# permitted: correct, incorrect, rejected
# harmless: what is timed is the replay, whose launches are all on the stream that is timed
# timed like: long_add
# Launches on a stream of its own that nobody waits for, after a long sleep of that stream.
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


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.side = torch.cuda.Stream()

    def forward(self, x, y):
        out, n = torch.empty_like(x), x.numel()
        with torch.cuda.stream(self.side):
            torch.cuda._sleep(20_000_000)
            add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
        return out
