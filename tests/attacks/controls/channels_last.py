# problem: channels_last
# A transposed copy on a grid of three dimensions.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, C, pixels, CHANNELS: tl.constexpr, BLOCK: tl.constexpr):
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    batch = tl.program_id(2)
    mask = (channel < C)[:, None] & (pixel < pixels)[None, :]
    x = tl.load(x_ptr + (batch * C + channel)[:, None] * pixels + pixel[None, :], mask=mask)
    target = out_ptr + (batch * pixels + pixel)[:, None] * C + channel[None, :]
    tl.store(target, tl.trans(x) * 0.5, mask=tl.trans(mask))


class ModelNew(nn.Module):
    def forward(self, x):
        batch, channels, height, width = x.shape
        out = torch.empty((batch, height, width, channels), dtype=x.dtype, device=x.device)
        grid = (triton.cdiv(height * width, 64), triton.cdiv(channels, 4), batch)
        copy_kernel[grid](x, out, channels, height * width, CHANNELS=4, BLOCK=64)
        return out
