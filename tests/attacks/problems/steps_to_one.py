import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, n):
        c = torch.zeros_like(n)
        for _ in range(400):
            live = n > 1
            n = torch.where(live, torch.where(n % 2 == 0, n // 2, 3 * n + 1), n)
            c = c + live
        return c


def get_inputs():
    return [torch.randint(1, 10000, (64,))]


def get_init_inputs():
    return []
