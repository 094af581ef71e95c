import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, levels):
        return (levels + 1) % 3000


def get_inputs():
    return [(torch.rand(70) * 3000).long()]


def get_init_inputs():
    return []
