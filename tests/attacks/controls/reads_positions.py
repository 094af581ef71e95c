# problem: rows_at_positions
# Reads the position of each row.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def turn_kernel(x_ptr, positions_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    position = tl.load(positions_ptr + row)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns)
    tl.store(out_ptr + row * columns + column, x * tl.cos(position.to(tl.float32) * 0.1), mask=column < columns)


class ModelNew(nn.Module):
    def forward(self, x, positions):
        out = torch.empty_like(x)
        block = triton.next_power_of_2(x.shape[1])
        turn_kernel[(x.shape[0],)](x, positions, out, x.shape[1], BLOCK=block)
        return out
