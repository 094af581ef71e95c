import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("bad", torch.zeros((), dtype=torch.int32))

    def forward(self, x):
        worse = x.mean() > 0
        self.bad.copy_(torch.where(worse, self.bad + 1, torch.zeros_like(self.bad)))
        return torch.where(self.bad >= 4, x * 0.1, x)


def get_inputs():
    return [torch.randn(24)]


def get_init_inputs():
    return []
