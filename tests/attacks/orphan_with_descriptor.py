# problem: add
# permitted: runtime_error, timeout
# A grandchild in a session of its own keeps the channel open after the worker has left.
import os
import time

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                while True:
                    time.sleep(1)
            os._exit(0)
        os._exit(0)
