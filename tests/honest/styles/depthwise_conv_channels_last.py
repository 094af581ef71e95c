import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.dw = nn.Conv2d(channels, channels, 3, groups=channels)

    def forward(self, x):
        return self.dw(x)


def get_inputs():
    return [torch.randn(2, 4, 6, 5)]


def get_init_inputs():
    return [4]
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def depthwise(x, w, b, y, C, H, W, OH, OW, BC: tl.constexpr):
    n, r, q = tl.program_id(2), tl.program_id(1), tl.program_id(0)
    c = tl.arange(0, BC)
    live = c < C
    acc = tl.load(b + c, mask=live, other=0.0)
    for i in tl.static_range(3):
        for j in tl.static_range(3):
            v = tl.load(x + ((n * H + r + i) * W + q + j) * C + c, mask=live, other=0.0)
            acc += v * tl.load(w + c * 9 + i * 3 + j, mask=live, other=0.0)
    tl.store(y + ((n * OH + r) * OW + q) * C + c, acc, mask=live)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.dw = nn.Conv2d(channels, channels, 3, groups=channels)

    def forward(self, x):
        x = x.to(memory_format=torch.channels_last)
        N, C, H, W = x.shape
        y = torch.empty((N, C, H - 2, W - 2), device=x.device, dtype=x.dtype, memory_format=torch.channels_last)
        depthwise[(W - 2, H - 2, N)](x, self.dw.weight, self.dw.bias, y, C, H, W, H - 2, W - 2, BC=triton.next_power_of_2(C))
        return y
