import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        return self.norm(x)


batch, height, width = 3, 7, 9


def get_inputs():
    return [torch.randn(batch, 12, height, width)]


def get_init_inputs():
    return [4, 12]
