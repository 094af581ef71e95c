import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, filters, size):
        super().__init__()
        self.conv = nn.Conv1d(channels, filters, size, stride=2, padding=1)

    def forward(self, x):
        return self.conv(x)


batch, length = 2, 40


def get_inputs():
    return [torch.randn(batch, 4, length)]


def get_init_inputs():
    return [4, 6, 3]
