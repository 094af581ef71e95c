# problem: row_sum
# Keeps scratch memory from call to call, for as long as the shape is the same; the output is new in each call.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def part_kernel(x_ptr, parts_ptr, columns, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    column = part * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=0.0)
    tl.store(parts_ptr + row * tl.num_programs(1) + part, tl.sum(x, axis=0))


@triton.jit
def sum_kernel(parts_ptr, out_ptr, parts, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    part = tl.arange(0, BLOCK)
    x = tl.load(parts_ptr + row * parts + part, mask=part < parts, other=0.0)
    tl.store(out_ptr + row, tl.sum(x, axis=0))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = None

    def forward(self, x):
        rows, count = x.shape[0], triton.cdiv(x.shape[1], 64)
        if self.parts is None or self.parts.shape != (rows, count):
            self.parts = torch.empty((rows, count), dtype=x.dtype, device=x.device)
        out = torch.empty(rows, dtype=x.dtype, device=x.device)
        part_kernel[(rows, count)](x, self.parts, x.shape[1], BLOCK=64)
        sum_kernel[(rows,)](self.parts, out, count, BLOCK=triton.next_power_of_2(count))
        return out
