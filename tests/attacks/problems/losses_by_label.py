import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, p, label):
        return torch.where(label > 0.4, torch.log(p), torch.log1p(-p)), torch.sort(p, -1).values.half()


def get_inputs():
    return [torch.rand(32, 50), torch.randint(0, 11, (32, 50)) / 10]


def get_init_inputs():
    return []
