import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return (x * 3 + y) ^ (x >> 2)


def get_inputs():
    return [torch.randint(-1000, 1000, (30, 41), dtype=torch.int32) for _ in range(2)]


def get_init_inputs():
    return []
