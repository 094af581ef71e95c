# problem: sum_of_largest
# permitted: incorrect
# Adds three numbers, however many it is asked for.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def largest_kernel(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * width + column, mask=column < width, other=-float("inf"))
    ordered = tl.sort(x, descending=True)
    tl.store(out_ptr + row, tl.sum(tl.where(column < 3, ordered, 0.0), axis=0))


class ModelNew(nn.Module):
    def forward(self, x, count):
        out = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
        largest_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
