import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, queries, keys):
        return (queries @ keys.T).argmax(1)


def get_inputs():
    return [torch.randn(56, 32), torch.randn(72, 32)]


def get_init_inputs():
    return []
