import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, bias):
        return x * 2.0 + bias


def get_inputs():
    return [torch.randn(29, 70), torch.randn(70)]


def get_init_inputs():
    return []
