import random

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.logsumexp(x, -1)


def get_inputs():
    rows = []
    for _ in range(9):
        rows.append([random.gauss(1, 2) if i % 3 else random.uniform(-1, 1) for i in range(30)])
    return [torch.tensor(rows)]


def get_init_inputs():
    return []
