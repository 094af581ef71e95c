import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, tensors, scales):
        return [tensor * scales["first"] + scales["second"] for tensor in tensors]


def get_inputs():
    tensors = [torch.randn(20, 12), torch.randn(50)]
    return [tensors, {"first": torch.randn(1), "second": torch.randn(1)}]


def get_init_inputs():
    return []
