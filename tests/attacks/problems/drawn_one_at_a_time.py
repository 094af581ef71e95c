import random

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, ids):
        return torch.softmax(x, -1), torch.where(ids == 0, -1, ids + 3)


def get_inputs():
    x = torch.tensor([[random.gauss(0, 1) for _ in range(24)] for _ in range(10)])
    return [x, torch.tensor([random.randrange(50000) for _ in range(40)])]


def get_init_inputs():
    return []
