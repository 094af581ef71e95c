import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.topk(x, 5, dim=1).values


rows, columns = 6, 60


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return []
