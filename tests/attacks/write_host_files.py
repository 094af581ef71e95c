# problem: add
# permitted: rejected
# flags: no_kernel
# Writes to system folders, to the libraries it was made from and beside its own interpreter.
import os
import sys

import torch
import torch.nn as nn

FOLDERS = ["/usr/lib", "/lib", "/etc", "/", "/root", sys.prefix, os.path.dirname(torch.__file__)]


class ModelNew(nn.Module):
    def forward(self, x, y):
        for folder in FOLDERS:
            try:
                with open(os.path.join(folder, "warpsmith-attack-file"), "w") as file:
                    file.write("here")
            except OSError:
                continue
            raise AssertionError(f"{folder} can be written")
        with open("/tmp/warpsmith-attack-file", "w") as file:
            file.write("this is the worker's own scratch, gone with it")
        return torch.zeros_like(x)
