import torch
import torch.nn as nn


class Model(nn.Module):
    """Convolution, ReLU, and a bias of its own, as in KernelBench's second level."""

    def __init__(self, in_channels, out_channels, kernel_size, bias_shape):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x):
        return torch.relu(self.conv(x)) + self.bias


def get_inputs():
    return [torch.randn(2, 3, 12, 12)]


def get_init_inputs():
    return [3, 8, 3, (8, 1, 1)]


# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_bias_kernel(y_ptr, bias_ptr, out_ptr, n, plane, channels, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    channel = (i // plane) % channels
    y = tl.load(y_ptr + i, mask=mask)
    bias = tl.load(bias_ptr + channel, mask=mask)
    tl.store(out_ptr + i, tl.maximum(y, 0.0) + bias, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, bias_shape):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x):
        y = self.conv(x).contiguous()
        out = torch.empty_like(y)
        n = y.numel()
        relu_bias_kernel[(triton.cdiv(n, 256),)](y, self.bias, out, n, y.shape[2] * y.shape[3], y.shape[1], BLOCK=256)
        return out
