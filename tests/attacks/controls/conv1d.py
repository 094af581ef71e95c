# problem: conv1d
# A convolution along one axis: a program for each filter and block of outputs, weights read at each call.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def conv_kernel(
    x_ptr,
    w_ptr,
    b_ptr,
    out_ptr,
    C,
    L,
    F,
    OUT,
    STRIDE: tl.constexpr,
    PAD: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    batch, filter_ = tl.program_id(0), tl.program_id(1)
    at = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32) + tl.load(b_ptr + filter_)
    for channel in range(C):
        for tap in range(SIZE):
            source = at * STRIDE - PAD + tap
            inside = (at < OUT) & (source >= 0) & (source < L)
            x = tl.load(x_ptr + (batch * C + channel) * L + source, mask=inside, other=0.0)
            total += x * tl.load(w_ptr + (filter_ * C + channel) * SIZE + tap)
    tl.store(out_ptr + (batch * F + filter_) * OUT + at, total, mask=at < OUT)


class ModelNew(nn.Module):
    def __init__(self, channels, filters, size):
        super().__init__()
        self.conv = nn.Conv1d(channels, filters, size, stride=2, padding=1)

    def forward(self, x):
        conv = self.conv
        (batch, channels, length), (filters, _, size) = x.shape, conv.weight.shape
        steps = (length + 2 - size) // 2 + 1
        out = torch.empty((batch, filters, steps), dtype=x.dtype, device=x.device)
        grid = (batch, filters, triton.cdiv(steps, 32))
        conv_kernel[grid](
            x, conv.weight, conv.bias, out, channels, length, filters, steps, STRIDE=2, PAD=1, SIZE=size, BLOCK=32
        )
        return out
