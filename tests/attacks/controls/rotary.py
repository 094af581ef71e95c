# problem: rotary
# Rotates pairs of halves by angles that the batches share.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rotate_kernel(x_ptr, cosine_ptr, sine_ptr, out_ptr, length, half, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < half
    angle = row % length * half + column
    cosine, sine = tl.load(cosine_ptr + angle, mask=mask), tl.load(sine_ptr + angle, mask=mask)
    first = tl.load(x_ptr + row * 2 * half + column, mask=mask)
    second = tl.load(x_ptr + row * 2 * half + half + column, mask=mask)
    tl.store(out_ptr + row * 2 * half + column, first * cosine - second * sine, mask=mask)
    tl.store(out_ptr + row * 2 * half + half + column, second * cosine + first * sine, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, cosine, sine):
        batch, length, width = x.shape
        out, half = torch.empty_like(x), width // 2
        block = triton.next_power_of_2(half)
        rotate_kernel[(batch * length,)](x, cosine, sine, out, length, half, BLOCK=block)
        return out
