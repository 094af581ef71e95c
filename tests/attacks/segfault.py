# problem: add
# permitted: runtime_error
# Dereferences nothing.
import ctypes

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        return ctypes.string_at(0)
