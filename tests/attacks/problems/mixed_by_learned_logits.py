import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.logits = nn.Parameter(torch.randn(4, features))

    def forward(self, x):
        return x * torch.softmax(self.logits, -1)[:, None]


def get_inputs():
    return [torch.randn(12, 40)]


def get_init_inputs():
    return [40]
