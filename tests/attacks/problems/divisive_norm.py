import torch
import torch.nn as nn


class Model(nn.Module):
    """Each pixel's channels over the root of what all of them weigh together."""

    def __init__(self, channels):
        super().__init__()
        self.beta = nn.Parameter(torch.ones(channels))
        self.gamma = nn.Parameter(0.1 * torch.eye(channels))

    def forward(self, x):
        return x * torch.rsqrt(self.beta + (x * x) @ self.gamma.t())


pixels, channels = 60, 24


def get_inputs():
    return [torch.randn(pixels, channels)]


def get_init_inputs():
    return [channels]
