# problem: positions
# permitted: undecided
# permitted on cuda: correct, incorrect, rejected
# Angles of thousands go to the fast sine, which has no bound there. An H100's is about as far off as a float32 angle.
import math

import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def positions_kernel(x_ptr, positions_ptr, frequencies_ptr, out_ptr, HALF: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, HALF)
    angle = tl.load(positions_ptr + row) * tl.load(frequencies_ptr + column)
    start = row * 2 * HALF
    x = tl.load(x_ptr + start + column)
    tl.store(out_ptr + start + column, x + libdevice.fast_sinf(angle))
    x = tl.load(x_ptr + start + HALF + column)
    tl.store(out_ptr + start + HALF + column, x + libdevice.fast_cosf(angle))


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        frequencies = torch.exp(torch.arange(0, width, 2).float() * (-math.log(10000.0) / width))
        self.register_buffer("frequencies", frequencies)

    def forward(self, x, positions):
        out = torch.empty_like(x)
        positions_kernel[(x.shape[0],)](x, positions, self.frequencies, out, HALF=x.shape[1] // 2)
        return out
