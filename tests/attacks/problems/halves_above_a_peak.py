import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        peak = x.amax(-1, keepdim=True)
        return torch.where(peak > 1.5, x * 0.5, x)


def get_inputs():
    return [torch.randn(64, 128)]


def get_init_inputs():
    return []
