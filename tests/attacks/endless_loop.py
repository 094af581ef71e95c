# problem: add
# permitted: timeout
# Never comes back.
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        while True:
            pass
