import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width, units):
        super().__init__()
        self.up = nn.Linear(width, units)

    def forward(self, x):
        z = self.up(x)
        return z.max(-1).values, z * torch.rsqrt(z.pow(2).mean(-1, keepdim=True) + 1e-5)


def get_inputs():
    return [torch.randn(24, 20)]


def get_init_inputs():
    return [20, 40]
