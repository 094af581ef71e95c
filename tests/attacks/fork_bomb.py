# problem: add
# permitted: rejected, runtime_error, timeout, incorrect
# Forks without end; the limit on processes stops it, and the end of the worker ends them all.
import os

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        for _ in range(10_000):
            try:
                if os.fork() == 0:
                    while True:
                        os.fork()
            except OSError:
                break
        return torch.zeros_like(x)
