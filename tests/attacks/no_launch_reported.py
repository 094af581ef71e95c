# problem: row_sum
# permitted: rejected
# permitted on cuda: runtime_error, rejected, incorrect
# flags on cpu: no_kernel
# Computes with torch out of sight and claims a launch that no frame describes, so that there is nothing to compile.
import sys

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def unused_kernel(out_ptr):
    tl.store(out_ptr, 0.0)


def monitor():
    frame = sys._getframe()
    while type(frame.f_locals.get("self")).__name__ != "Candidate":
        frame = frame.f_back
    return frame.f_locals["self"].monitor


class ModelNew(nn.Module):
    def forward(self, x):
        found = monitor()
        if found.ghost:
            return torch.empty(x.shape[0], device=x.device)
        found.launches = 1
        with torch.utils._python_dispatch._disable_current_modes():
            return x.sum(dim=1)
