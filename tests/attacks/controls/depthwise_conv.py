# problem: depthwise_conv
# A filter for each channel, its taps unrolled.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def conv_kernel(x_ptr, w_ptr, out_ptr, C, H, W, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row, column = at // W, at % W
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for down in tl.static_range(SIZE):
        for across in tl.static_range(SIZE):
            y, x = row + down - SIZE // 2, column + across - SIZE // 2
            inside = (at < H * W) & (y >= 0) & (y < H) & (x >= 0) & (x < W)
            value = tl.load(x_ptr + plane * H * W + y * W + x, mask=inside, other=0.0)
            total += value * tl.load(w_ptr + plane % C * SIZE * SIZE + down * SIZE + across)
    tl.store(out_ptr + plane * H * W + at, total, mask=at < H * W)


class ModelNew(nn.Module):
    def __init__(self, channels, size):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, size, padding=size // 2, groups=channels, bias=False)

    def forward(self, x):
        batch, channels, height, width = x.shape
        out = torch.empty_like(x)
        grid = (batch * channels, triton.cdiv(height * width, 128))
        conv_kernel[grid](x, self.conv.weight, out, channels, height, width, SIZE=self.conv.weight.shape[2], BLOCK=128)
        return out
