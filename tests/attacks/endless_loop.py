# problem: add
# permitted: timeout
# seconds: 2
# Never comes back.
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        while True:
            pass
