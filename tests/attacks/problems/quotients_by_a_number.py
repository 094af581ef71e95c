import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, divisor):
        return x // divisor


def get_inputs():
    return [torch.randint(0, 5000, (9, 30)), 2]


def get_init_inputs():
    return []
