# problem: add
# permitted: runtime_error, rejected, incorrect
# Fills the scratch with bytes and with inodes.
import os

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        for folder in ("/tmp", "/dev/shm"):
            try:
                for number in range(100_000):
                    with open(os.path.join(folder, f"f{number}"), "wb") as file:
                        file.write(b"x" * (1 << 20 if number < 1000 else 0))
            except OSError:
                pass
        return torch.zeros_like(x)
