# problem: add
# permitted: runtime_error
# Says while it is imported that it is loaded, in a message without its fields.
import sys

import torch.nn as nn

from warpsmith.evaluator.ipc import codec

frame = sys._getframe()
while frame.f_code.co_name != "serve":
    frame = frame.f_back
frame.f_locals["channel"].send(33, codec.encode({}))


class ModelNew(nn.Module):
    def forward(self, x, y):
        return x
