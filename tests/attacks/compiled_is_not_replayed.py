# problem: row_sum
# permitted: compile_error
# permitted on cuda: compile_error, runtime_error, rejected, incorrect
# Reports a launch that compiles, and runs one that does not: what is replayed must be what is compiled.
import sys

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, out_ptr, columns, REAL: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    if REAL:
        for _ in [1, 2]:
            row = row + 0
        x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=0.0)
        tl.store(out_ptr + row, tl.sum(x, axis=0))
    else:
        tl.store(out_ptr + row, 0.0)


def monitor():
    frame = sys._getframe()
    while type(frame.f_locals.get("self")).__name__ != "Candidate":
        frame = frame.f_back
    return frame.f_locals["self"].monitor


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        found = monitor()
        report = found._report
        found._report = lambda launch: report(launch | {"arguments": launch["arguments"] | {"REAL": ["value", 0]}})

    def forward(self, x):
        out = torch.empty(x.shape[0], device=x.device)
        sum_kernel[(x.shape[0],)](x, out, x.shape[1], REAL=1, BLOCK=512)
        return out
