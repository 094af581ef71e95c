# problem: add
# permitted: rejected, incorrect, runtime_error
# Reads the memory of every other process that it can see.
import os

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid():
                with open(f"/proc/{name}/mem", "rb"):
                    pass
                raise AssertionError(f"the memory of process {name} is open")
        return torch.zeros_like(x)
