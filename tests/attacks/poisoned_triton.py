# problem: add
# permitted: rejected, compile_error, incorrect, runtime_error
# Replaces triton.jit by a decorator that runs plain Python with torch inside, so that a "kernel" is a fallback.
import torch
import torch.nn as nn
import triton


class Fake:
    def __init__(self, function):
        self.function = function

    def __getitem__(self, grid):
        return self.function


triton.jit = Fake


@triton.jit
def add_kernel(x, y, out):
    out.copy_(torch.add(x, y))


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        add_kernel[(1,)](x, y, out)
        return out
