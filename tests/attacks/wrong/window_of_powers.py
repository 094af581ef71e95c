# problem: decays_by_powers
# permitted: incorrect
# Adds up the last 32 steps: the power of a factor near one half is below a rounding there.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def powers(x_ptr, keep_ptr, out_ptr, steps, channels, WINDOW: tl.constexpr, BLOCK: tl.constexpr):
    sample, step, c = tl.program_id(0), tl.program_id(1), tl.arange(0, BLOCK)
    inside = c < channels
    keep = tl.sigmoid(tl.load(keep_ptr + c, mask=inside, other=0.0))
    total = tl.zeros((BLOCK,), tl.float32)
    for before in range(tl.maximum(step - WINDOW + 1, 0), step + 1):
        total = keep * total + tl.load(x_ptr + (sample * steps + before) * channels + c, mask=inside, other=0.0)
    tl.store(out_ptr + (sample * steps + step) * channels + c, total, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.keep = nn.Parameter(0.3 * torch.randn(channels))

    def forward(self, x):
        x = x.contiguous()
        samples, steps, channels = x.shape
        out = torch.empty_like(x)
        block = triton.next_power_of_2(channels)
        powers[(samples, steps)](x, self.keep, out, steps, channels, WINDOW=32, BLOCK=block)
        return out
