import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 8, 3, padding=1)

    def forward(self, x):
        return torch.relu(self.conv(x))


def get_inputs():
    return [torch.randn(2, 4, 5, 6)]


def get_init_inputs():
    return []
# ----- candidate -----
"""Keeps its weight channels last, so that a row of channels is one load, which Model does not."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def conv(x, w, b, o, C, H, W, OC, BC: tl.constexpr, BO: tl.constexpr):
    pixel = tl.program_id(0)
    image = pixel // (H * W)
    y = pixel // W % H
    z = pixel % W
    oc = tl.arange(0, BO)
    c = tl.arange(0, BC)
    acc = tl.zeros((BO,), tl.float32)
    for dy in tl.static_range(3):
        for dz in tl.static_range(3):
            yy = y + dy - 1
            zz = z + dz - 1
            inside = (c < C) & (yy >= 0) & (yy < H) & (zz >= 0) & (zz < W)
            v = tl.load(x + ((image * C + c) * H + yy) * W + zz, mask=inside, other=0.0)
            near = (oc[:, None] < OC) & (c[None, :] < C)
            ww = tl.load(w + ((oc[:, None] * 3 + dy) * 3 + dz) * C + c[None, :], mask=near, other=0.0)
            acc += tl.sum(ww * v[None, :], 1)
    acc = tl.maximum(acc + tl.load(b + oc, mask=oc < OC, other=0.0), 0.0)
    tl.store(o + ((image * OC + oc) * H + y) * W + z, acc, mask=oc < OC)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 8, 3, padding=1).to(memory_format=torch.channels_last)

    def forward(self, x):
        n, c, h, w = x.shape
        oc = self.conv.weight.shape[0]
        o = torch.empty((n, oc, h, w), device=x.device, dtype=x.dtype)
        sizes = {"BC": triton.next_power_of_2(c), "BO": triton.next_power_of_2(oc)}
        conv[(n * h * w,)](x, self.conv.weight, self.conv.bias, o, c, h, w, oc, **sizes)
        return o
