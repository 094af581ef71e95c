import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return (x > y) & (x < 1.0)


def get_inputs():
    return [torch.randn(30, 41), torch.randn(30, 41)]


def get_init_inputs():
    return []
