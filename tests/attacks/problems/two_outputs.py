import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        values, index = x.max(dim=1)
        return values, index


def get_inputs():
    return [torch.randn(30, 50)]


def get_init_inputs():
    return []
