# problem: row_sum
# permitted: runtime_error, compile_error, rejected
# permitted on cuda: compile_error, runtime_error, rejected, incorrect
# Writes an argument among the options of its trace's launches: a compiler that knows options by name would take the
# argument's default instead, which compiles.
import sys

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr, REAL: tl.constexpr = 0):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    if REAL:
        for _ in [1, 2]:
            row = row + 0
        x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=0.0)
        tl.store(out_ptr + row, tl.sum(x, axis=0))
    else:
        tl.store(out_ptr + row, 0.0)


def candidate():
    frame = sys._getframe()
    while type(frame.f_locals.get("self")).__name__ != "Candidate":
        frame = frame.f_back
    return frame.f_locals["self"]


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        monitor = candidate().monitor
        report = monitor._report
        monitor._report = lambda launch: report(self.moved(launch))

    def moved(self, launch):
        arguments = {name: value for name, value in launch["arguments"].items() if name != "REAL"}
        return launch | {"arguments": arguments, "options": {"REAL": 1}}

    def forward(self, x):
        recorder = candidate().recorder
        if recorder is not None:
            note = recorder._add
            recorder._add = lambda event: note(self.forged(event))
        out = torch.empty(x.shape[0], device=x.device)
        sum_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=512, REAL=1)
        return out

    def forged(self, event):
        if event[0] == "launch":
            del event[3]["REAL"]
            event[4]["REAL"] = 1
        return event
