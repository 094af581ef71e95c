import torch


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width

    def forward(self, x):
        return torch.nn.functional.pad(x, (0, self.width)).roll(self.width, 1) * 2


def get_inputs():
    return [torch.randn(6, 21)]


def get_init_inputs():
    return {"width": 3}
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def twice(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width

    def forward(self, x):
        padded = torch.nn.functional.pad(x, (self.width, 0))
        y = torch.empty_like(padded)
        twice[(triton.cdiv(y.numel(), 64),)](padded, y, y.numel(), BLOCK=64)
        return y
