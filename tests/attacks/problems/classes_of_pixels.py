import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        self.classify = nn.Conv2d(channels, classes, 1)

    def forward(self, image):
        return self.classify(image).argmax(1)


def get_inputs():
    return [torch.randn(3, 24, 9, 10)]


def get_init_inputs():
    return [24, 12]
