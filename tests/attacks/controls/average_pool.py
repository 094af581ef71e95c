# problem: average_pool
# Means of overlapping windows, each row loaded as a block of windows.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pool_kernel(x_ptr, out_ptr, length, steps, SIZE: tl.constexpr, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    step = tl.arange(0, BLOCK)
    at = step[:, None] * STRIDE + tl.arange(0, SIZE)[None, :]
    x = tl.load(x_ptr + row * length + at, mask=(step < steps)[:, None], other=0.0)
    tl.store(out_ptr + row * steps + step, tl.sum(x, axis=1) / SIZE, mask=step < steps)


class ModelNew(nn.Module):
    def forward(self, x):
        batch, channels, length = x.shape
        steps = (length - 4) // 2 + 1
        out = torch.empty((batch, channels, steps), dtype=x.dtype, device=x.device)
        block = triton.next_power_of_2(steps)
        pool_kernel[(batch * channels,)](x, out, length, steps, SIZE=4, STRIDE=2, BLOCK=block)
        return out
