# problem: sum_of_digits
# permitted: incorrect
# Adds the carry of the two digits before: one that runs through two more is lost, which random digits hardly ever show.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(a_ptr, b_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row, place = tl.program_id(0), tl.arange(0, BLOCK)
    at = row * width + place
    inside = place < width
    total = tl.load(a_ptr + at, mask=inside, other=0) + tl.load(b_ptr + at, mask=inside, other=0)
    one = inside & (place > 0)
    before = tl.load(a_ptr + at - 1, mask=one, other=0) + tl.load(b_ptr + at - 1, mask=one, other=0)
    two = inside & (place > 1)
    first = tl.load(a_ptr + at - 2, mask=two, other=0) + tl.load(b_ptr + at - 2, mask=two, other=0)
    tl.store(out_ptr + at, (total + (before + first // 256) // 256) % 256, mask=inside)


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        out = torch.empty_like(a)
        add_kernel[(a.shape[0],)](a, b, out, a.shape[1], BLOCK=triton.next_power_of_2(a.shape[1]))
        return out
