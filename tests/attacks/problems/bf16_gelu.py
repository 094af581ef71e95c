import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return nn.functional.gelu(x, approximate="tanh")


def get_inputs():
    return [torch.randn(64, 300).bfloat16()]


def get_init_inputs():
    return []
