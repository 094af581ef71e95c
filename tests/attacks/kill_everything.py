# problem: add
# permitted: runtime_error, rejected, incorrect
# Kills every process that it may signal, itself included.
import os
import signal

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        for target in (-1, 0, os.getppid(), os.getpid()):
            try:
                os.kill(target, signal.SIGKILL)
            except OSError:
                pass
        return torch.zeros_like(x)
