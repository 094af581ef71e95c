import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, colours, channels):
        super().__init__()
        self.palette = nn.Parameter(torch.randn(colours, channels))

    def forward(self, pixels):
        return self.palette[pixels]


def get_inputs():
    return [torch.randint(0, 5000, (3, 5))]


def get_init_inputs():
    return [5000, 12]
