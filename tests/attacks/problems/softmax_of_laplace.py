import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)


def get_inputs():
    return [torch.distributions.Laplace(0.0, 1.0).sample((16, 40))]


def get_init_inputs():
    return []
