# problem: drawn_one_at_a_time
# Numbers that Python draws one at a time: rows of any size, and identifiers of which the first is padding.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * width + column, mask=column < width, other=-float("inf"))
    part = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * width + column, part / tl.sum(part, axis=0), mask=column < width)


@triton.jit
def ids_kernel(ids_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    one = tl.load(ids_ptr + at, mask=at < count, other=0)
    tl.store(out_ptr + at, tl.where(one == 0, -1, one + 3), mask=at < count)


class ModelNew(nn.Module):
    def forward(self, x, ids):
        out, moved = torch.empty_like(x), torch.empty_like(ids)
        softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        ids_kernel[(triton.cdiv(ids.numel(), 64),)](ids, moved, ids.numel(), BLOCK=64)
        return out, moved
