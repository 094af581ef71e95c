import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, t):
        is_eos = t == 2
        n = torch.argmax(is_eos.int(), dim=-1)
        return torch.where(is_eos.any(-1), n, torch.full_like(n, t.shape[1]))


def get_inputs():
    return [torch.randint(0, 50, (64, 300))]


def get_init_inputs():
    return []
