# problem: add
# permitted: runtime_error
# Takes memory until there is none.
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        held = []
        while True:
            held.append(bytearray(64 << 20))
