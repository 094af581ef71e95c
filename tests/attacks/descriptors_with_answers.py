# problem: add
# permitted: runtime_error
# Sends as many descriptors as a frame may carry along with a payload that is no message: the receiver must keep none.
import os
import sys

import torch.nn as nn


def channel():
    frame = sys._getframe()
    while frame.f_code.co_name != "serve":
        frame = frame.f_back
    return frame.f_locals["channel"]


class ModelNew(nn.Module):
    def forward(self, x, y):
        channel().send(66, b"Q", [os.dup(1) for _ in range(120)])
        return x
