import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(50, 72), torch.randn(72, 40)]


def get_init_inputs():
    return []
