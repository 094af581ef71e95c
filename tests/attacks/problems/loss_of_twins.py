import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, one, other):
        one, other = F.normalize(one, dim=-1), F.normalize(other, dim=-1)
        scores = 8.0 * one @ other.T
        return (scores.logsumexp(0) - scores.diagonal()).mean()


def get_inputs():
    return [torch.randn(192, 48), torch.randn(192, 48)]


def get_init_inputs():
    return []
