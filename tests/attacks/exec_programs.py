# problem: add
# permitted: rejected
# flags: no_kernel
# Starts programs: a shell, a compiler, the interpreter itself.
import subprocess
import sys

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        for command in (["/bin/sh", "-c", "true"], ["cc", "--version"], [sys.executable, "-c", "pass"]):
            try:
                subprocess.run(command, check=False)
            except OSError:
                continue
            raise AssertionError(f"{command[0]} runs")
        return torch.zeros_like(x)
