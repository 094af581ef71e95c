import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, size):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, size, padding=size // 2, groups=channels, bias=False)

    def forward(self, x):
        return self.conv(x)


batch, height, width = 2, 12, 20


def get_inputs():
    return [torch.randn(batch, 4, height, width)]


def get_init_inputs():
    return [4, 3]
