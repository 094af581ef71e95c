import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, table, index):
        return table[index]


def get_inputs():
    return [torch.randn(64, 32), torch.randint(0, 64, (50,))]


def get_init_inputs():
    return []
