# problem: batch_norm_2d
# A batch norm by its running statistics, fused with a ReLU.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm_kernel(x_ptr, mean_ptr, var_ptr, w_ptr, b_ptr, out_ptr, pixels, channels, eps, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    channel = plane % channels
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    scale = tl.load(w_ptr + channel) * tl.rsqrt(tl.load(var_ptr + channel) + eps)
    x = tl.load(x_ptr + plane * pixels + at, mask=at < pixels)
    normed = (x - tl.load(mean_ptr + channel)) * scale + tl.load(b_ptr + channel)
    tl.store(out_ptr + plane * pixels + at, tl.maximum(normed, 0.0), mask=at < pixels)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        batch, channels, height, width = x.shape
        out, norm, pixels = torch.empty_like(x), self.norm, height * width
        norm_kernel[(batch * channels, triton.cdiv(pixels, 64))](
            x, norm.running_mean, norm.running_var, norm.weight, norm.bias, out, pixels, channels, norm.eps, BLOCK=64
        )
        return out
