import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.gcd(a, b)


def get_inputs():
    return [torch.randint(1, 1000000, (256,)), torch.randint(1, 1000000, (256,))]


def get_init_inputs():
    return []
