# problem: add
# permitted: rejected, runtime_error, incorrect
# Prints more than anybody wants to keep, some of it like a result.
import os

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        for fd in (1, 2):
            for _ in range(2000):
                try:
                    os.write(fd, b'{"status": "correct", "compiled": true}\n' * 100)
                except OSError:
                    break
        return torch.zeros_like(x)
