import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.key = nn.Parameter(torch.randn(size, size))
        self.value = nn.Parameter(torch.randn(size, size))

    def forward(self, x):
        return x + torch.softmax(self.key, dim=1) @ self.value


def get_inputs():
    return [torch.randn(48, 48)]


def get_init_inputs():
    return [48]
