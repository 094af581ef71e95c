import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return nn.functional.max_pool2d(x, kernel_size=3, stride=2, padding=1)


batch, channels, height, width = 2, 5, 16, 22


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return []
