# problem: add
# permitted: rejected
# flags: no_kernel
# Reads what a host has; each file that opens is a leak, and a leak shows as another status.
import glob
import os

import torch
import torch.nn as nn

WANTED = [
    "/etc/passwd",
    "/etc/shadow",
    "/etc/hostname",
    "/proc/1/root/etc/passwd",
    "/sys/kernel",
    "/root",
    "/home",
    "/var",
]


class ModelNew(nn.Module):
    def forward(self, x, y):
        for path in [*WANTED, os.path.expanduser("~/.ssh")]:
            try:
                open(path).close()
            except (IsADirectoryError, PermissionError, FileNotFoundError, NotADirectoryError):
                pass
            else:
                raise AssertionError(f"{path} can be read")
            if os.path.isdir(path) and os.access(path, os.R_OK) and glob.glob(f"{path}/*"):
                raise AssertionError(f"{path} can be listed")
        return torch.zeros_like(x)
