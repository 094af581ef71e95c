import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, padding=1, bias=False)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(2, 2, 7, 6)]


def get_init_inputs():
    return [2, 3]
# ----- candidate -----
"""Torch pads, the kernel convolves without a test of borders."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def conv3x3(x, w, y, CIN, COUT, H, W, BLOCK: tl.constexpr):
    n, co = tl.program_id(0) // COUT, tl.program_id(0) % COUT
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    m = i < H * W
    r, c = i // W, i % W
    acc = tl.zeros((BLOCK,), tl.float32)
    for ci in range(CIN):
        for dr in tl.static_range(3):
            for dc in tl.static_range(3):
                p = x + ((n * CIN + ci) * (H + 2) + r + dr) * (W + 2) + c + dc
                acc += tl.load(p, mask=m, other=0.0) * tl.load(w + ((co * CIN + ci) * 3 + dr) * 3 + dc)
    tl.store(y + (n * COUT + co) * H * W + i, acc, mask=m)


class ModelNew(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, padding=1, bias=False)

    def forward(self, x):
        padded = F.pad(x, (1, 1, 1, 1))
        N, CIN, H, W = x.shape
        COUT = self.conv.out_channels
        y = x.new_empty((N, COUT, H, W))
        conv3x3[(N * COUT, triton.cdiv(H * W, 32))](padded, self.conv.weight, y, CIN, COUT, H, W, BLOCK=32)
        return y
