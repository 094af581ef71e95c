import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, size, width):
        super().__init__()
        self.register_buffer("queue", torch.randn(size, width))
        self.register_buffer("place", torch.zeros(1, dtype=torch.long))

    def forward(self, keys):
        count, size = keys.shape[0], self.queue.shape[0]
        at = (self.place + torch.arange(count, device=keys.device)) % size
        self.queue[at] = keys
        self.place[0] = (self.place[0] + count) % size
        return keys @ self.queue.t()


def get_inputs():
    return [torch.randn(4, 8)]


def get_init_inputs():
    return [48, 8]
