# problem: argmax
# device: cpu
# permitted: undecided
# The largest value and its index are updated one after the other; another program may come between.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def argmax_kernel(x_ptr, value_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, start = tl.program_id(0), tl.program_id(1) * BLOCK
    column = start + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=-float("inf"))
    largest, index = tl.max(x, 0, return_indices=True)
    if largest > tl.atomic_max(value_ptr + row, largest):
        tl.atomic_xchg(out_ptr + row, (start + index).to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        value = torch.full((rows,), -float("inf"), device=x.device)
        out = torch.zeros(rows, dtype=torch.int64, device=x.device)
        argmax_kernel[(rows, triton.cdiv(columns, 16))](x, value, out, columns, BLOCK=16)
        return out
