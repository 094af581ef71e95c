import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x)


rows = 40
columns = 2 * 48


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return []
