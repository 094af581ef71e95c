import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bn = nn.BatchNorm2d(channels)
        self.bn.eval()

    def forward(self, x):
        return torch.relu(self.bn(x))


def get_inputs():
    return [torch.randn(2, 5, 6, 7)]


def get_init_inputs():
    return [5]
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bn_relu(x_ptr, mean_ptr, var_ptr, w_ptr, b_ptr, y_ptr, C, HW, eps, BLOCK: tl.constexpr):
    nc = tl.program_id(0)
    c = nc % C
    scale = tl.load(w_ptr + c) * tl.rsqrt(tl.load(var_ptr + c) + eps)
    shift = tl.load(b_ptr + c) - tl.load(mean_ptr + c) * scale
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + nc * HW + i, mask=i < HW)
    tl.store(y_ptr + nc * HW + i, tl.maximum(x * scale + shift, 0.0), mask=i < HW)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bn = nn.BatchNorm2d(channels).eval()

    def forward(self, x):
        bn = self.bn
        n, c, h, w = x.shape
        y = torch.empty_like(x)
        bn_relu[(n * c, triton.cdiv(h * w, 32))](x, bn.running_mean, bn.running_var, bn.weight, bn.bias, y, c, h * w, bn.eps, BLOCK=32)
        return y
