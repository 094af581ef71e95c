# problem: add
# device: cpu
# permitted: correct, timeout
# harmless: what host code does leaves the replay no less time than others have; the kernel is slow and honest
# slow: it waits for a deadline
# seconds: 5
# Leaves the replay less time than its launches take: slow it is, and no host computes its output.
import time

import torch
import torch.nn as nn
import triton
import triton.language as tl

CALLS_BEFORE_THE_REPLAY = 6
SECONDS_OF_ALL_CALLS = 4.7


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, rounds, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x, y = tl.load(x_ptr + offsets, mask=mask), tl.load(y_ptr + offsets, mask=mask)
    total = x
    for _ in range(rounds):
        total = tl.maximum(total, x)
    tl.store(out_ptr + offsets, total + y, mask=mask)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.seconds = 0.0

    def forward(self, x, y):
        started = time.monotonic()
        self.calls += 1
        out = torch.empty_like(x)
        add_kernel[(triton.cdiv(x.numel(), 8192),)](x, y, out, x.numel(), 20000, BLOCK=8192)
        self.seconds += time.monotonic() - started
        if self.calls == CALLS_BEFORE_THE_REPLAY:
            time.sleep(max(0.0, SECONDS_OF_ALL_CALLS - self.seconds))
        return out
