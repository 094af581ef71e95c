import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.rsqrt(x + 1.0)


def get_inputs():
    return [torch.rand(512)]


def get_init_inputs():
    return []
# ----- candidate -----
"""Prints what the compiled kernel needs, as people do while they tune."""
import os
import sys
import time

import torch
import triton
import triton.language as tl

VERBOSE = os.environ.get("KERNEL_VERBOSE", "0") == "1"


@triton.jit
def rsqrt1(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.rsqrt(tl.load(x + i, mask=i < n, other=0.0) + 1.0), mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        started = time.perf_counter()
        y = torch.empty_like(x)
        compiled = rsqrt1[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        if VERBOSE:
            torch.cuda.synchronize()
            print(compiled.n_regs, compiled.n_spills, time.perf_counter() - started, file=sys.stderr)
        return y
