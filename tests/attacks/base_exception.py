# problem: add
# permitted: runtime_error
# Raises what `except Exception` does not catch.
import torch.nn as nn


class Leave(BaseException):
    pass


class ModelNew(nn.Module):
    def forward(self, x, y):
        raise Leave("not an Exception")
