import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return nn.functional.hardshrink(x, 0.1)


def get_inputs():
    return [torch.randn(16, 96)]


def get_init_inputs():
    return []
