import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, chosen):
        return x * chosen / chosen.sum().clamp(min=1)


def get_inputs():
    return [torch.randn(6, 50), torch.rand(6, 50) < 0.3]


def get_init_inputs():
    return []
