import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, dim, classes):
        super().__init__()
        self.prototypes = nn.Parameter(torch.randn(classes, dim))

    def forward(self, x, label):
        scores = 16.0 * F.normalize(x, dim=1) @ F.normalize(self.prototypes, dim=1).T
        return F.cross_entropy(scores, label)


def get_inputs():
    return [torch.randn(256, 64), torch.randint(0, 40, (256,))]


def get_init_inputs():
    return [64, 40]
