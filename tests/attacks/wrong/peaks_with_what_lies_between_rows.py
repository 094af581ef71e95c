# problem: peaks_of_a_part
# permitted: incorrect
# Reads each row to the start of the next: a maximum drops what is NaN between them, and takes what is a number.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def peak(x, out, cols, step, last, B: tl.constexpr):
    row = tl.program_id(0)
    at = row * step + tl.arange(0, B)
    v = tl.load(x + at, mask=(tl.arange(0, B) < step) & (at < last), other=-float("inf"))
    tl.store(out + row, tl.max(v, 0))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        step = x.stride(0)
        out = torch.empty(rows, device=x.device, dtype=x.dtype)
        peak[(rows,)](x, out, cols, step, (rows - 1) * step + cols, B=triton.next_power_of_2(step))
        return out
