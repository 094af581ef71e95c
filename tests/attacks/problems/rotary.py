import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, cosine, sine):
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


batch, length, width = 3, 20, 16


def get_inputs():
    angles = torch.randn(length, width // 2)
    return [torch.randn(batch, length, width), angles.cos(), angles.sin()]


def get_init_inputs():
    return []
