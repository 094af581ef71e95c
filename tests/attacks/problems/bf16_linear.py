import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features, out):
        super().__init__()
        self.linear = nn.Linear(features, out).bfloat16()

    def forward(self, x):
        return self.linear(x)


batch = 100


def get_inputs():
    return [torch.randn(batch, 128).bfloat16()]


def get_init_inputs():
    return [128, 72]
