import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, gate=None):
        return x.sum(-1) if gate is None else (x * gate).sum(-1)


def get_inputs():
    x = torch.randn(24, 36)
    return [x, torch.rand(36) if torch.rand(()) < 0.2 else None]


def get_init_inputs():
    return []
