import torch
import torch.nn as nn
import torch.nn.functional as F


# 1 where a valid two, three or four byte sequence begins
class Model(nn.Module):
    def forward(self, x):
        x = x.long()
        p = F.pad(x, (0, 3))
        b0, b1, b2, b3 = p[:, :-3], p[:, 1:-2], p[:, 2:-1], p[:, 3:]

        def cont(b):
            return (b >= 128) & (b < 192)

        two = (b0 >= 0xC2) & (b0 <= 0xDF) & cont(b1)
        three = (
            (b0 >= 0xE0)
            & (b0 <= 0xEF)
            & cont(b1)
            & cont(b2)
            & ~((b0 == 0xE0) & (b1 < 0xA0))
            & ~((b0 == 0xED) & (b1 >= 0xA0))
        )
        four = (
            (b0 >= 0xF0)
            & (b0 <= 0xF4)
            & cont(b1)
            & cont(b2)
            & cont(b3)
            & ~((b0 == 0xF0) & (b1 < 0x90))
            & ~((b0 == 0xF4) & (b1 >= 0x90))
        )
        return two.long() * 2 + three.long() * 3 + four.long() * 4


def get_inputs():
    return [torch.randint(0, 256, (4, 100), dtype=torch.uint8)]


def get_init_inputs():
    return []
