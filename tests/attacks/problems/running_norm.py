import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bn = nn.BatchNorm1d(features)
        self.eval()
        self.register_buffer("span", torch.ones(features))

    def forward(self, x):
        return self.bn(x) * self.span


def get_inputs():
    return [torch.randn(40, 24)]


def get_init_inputs():
    return [24]
