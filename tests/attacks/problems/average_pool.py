import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return nn.functional.avg_pool1d(x, kernel_size=4, stride=2)


batch, channels, length = 4, 6, 50


def get_inputs():
    return [torch.randn(batch, channels, length)]


def get_init_inputs():
    return []
