import torch
import torch.nn as nn

rows, columns = 48, 40


class Model(nn.Module):
    def forward(self, x):
        return torch.logsumexp(x, 1)


def get_inputs():
    x = torch.randn(rows, columns)
    x[torch.rand(rows, columns) >= 0.6] = float("-inf")
    return [x]


def get_init_inputs():
    return []
