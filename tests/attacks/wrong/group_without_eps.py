# problem: group_norm
# permitted: incorrect
# No number is added to the variance: a black image is a division by zero.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, span, pixels, groups, BLOCK: tl.constexpr):
    group = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for first in range(0, span, BLOCK):
        at = first + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + group * span + at, mask=at < span, other=0.0)
    mean = tl.sum(total, axis=0) / span
    square = tl.zeros((BLOCK,), dtype=tl.float32)
    for first in range(0, span, BLOCK):
        at = first + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + group * span + at, mask=at < span, other=0.0)
        square += tl.where(at < span, (x - mean) * (x - mean), 0.0)
    scale = tl.rsqrt(tl.sum(square, axis=0) / span)
    for first in range(0, span, BLOCK):
        at = first + tl.arange(0, BLOCK)
        channel = (group % groups) * (span // pixels) + at // pixels
        x = tl.load(x_ptr + group * span + at, mask=at < span, other=0.0)
        weight = tl.load(w_ptr + channel, mask=at < span)
        bias = tl.load(b_ptr + channel, mask=at < span)
        tl.store(out_ptr + group * span + at, (x - mean) * scale * weight + bias, mask=at < span)


class ModelNew(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        batch, channels, height, width = x.shape
        out, norm = torch.empty_like(x), self.norm
        span = channels // norm.num_groups * height * width
        norm_kernel[(batch * norm.num_groups,)](
            x, norm.weight, norm.bias, out, span, height * width, norm.num_groups, BLOCK=64
        )
        return out
