import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, density):
        return torch.exp(-torch.cumsum(F.softplus(density), 0))


def get_inputs():
    return [torch.randn(600)]


def get_init_inputs():
    return []
