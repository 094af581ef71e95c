import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, kept):
        return (x * kept).sum(-1) / (kept != 0).sum(-1).clamp(min=1)


def get_inputs():
    return [torch.randn(12, 40), nn.Dropout(0.3)(torch.ones(12, 40))]


def get_init_inputs():
    return []
