import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.transpose(-1, -2) * 2.0


def get_inputs():
    return [torch.randn(4, 32, 32)]


def get_init_inputs():
    return []
