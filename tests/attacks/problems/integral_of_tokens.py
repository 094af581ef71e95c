import torch
import torch.nn as nn


class Model(nn.Module):
    padding = 1731

    def forward(self, values, tokens, times):
        return torch.trapezoid(values.masked_fill(tokens == self.padding, 0.0), times, dim=-1)


def get_inputs():
    return [torch.randn(24, 40), torch.randint(0, 30000, (24, 40)), torch.linspace(0.0, 2.0, 40)]


def get_init_inputs():
    return []
