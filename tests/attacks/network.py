# problem: add
# permitted: rejected
# flags: no_kernel
# Opens sockets of every family, and connects to the machine, to a metadata address and to abstract sockets.
import socket

import torch
import torch.nn as nn

FAMILIES = [socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET, 40]


class ModelNew(nn.Module):
    def forward(self, x, y):
        for family in FAMILIES:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
                try:
                    socket.socket(family, kind).close()
                except OSError:
                    continue
                raise AssertionError(f"a socket of family {family} opens")
        return torch.zeros_like(x)
