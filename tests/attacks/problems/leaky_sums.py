import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.register_buffer("held", torch.zeros(12, features))

    def forward(self, x):
        self.held.mul_(0.75).add_(x)
        return self.held.clone()


def get_inputs():
    return [torch.randn(12, 36)]


def get_init_inputs():
    return [36]
