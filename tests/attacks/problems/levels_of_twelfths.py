import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("edges", torch.tensor([2, 5, 9]) / 12)

    def forward(self, x):
        return (x[..., None] > self.edges).sum(-1)


def get_inputs():
    return [torch.randint(0, 25, (48, 60)) / 24]


def get_init_inputs():
    return []
