"""Matrix product, sigmoid, sum of each row: torch's layer, then a program a row."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

BLOCK_SIZE = 4096


@triton.jit
def tail_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, columns, BLOCK):
        inside = first + lanes < columns
        x = tl.load(x_ptr + row * columns + first + lanes, mask=inside, other=0.0)
        total += tl.where(inside, tl.sigmoid(x), 0.0)
    tl.store(out_ptr + row, tl.sum(total, 0))


class ModelNew(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.linear = nn.Linear(input_size, hidden_size)

    def forward(self, x):
        x = self.linear(x)
        rows, columns = x.shape
        out = torch.empty(rows, 1, device=x.device)
        tail_kernel[(rows,)](x, out, columns, BLOCK=BLOCK_SIZE, num_warps=8)
        return out
