import torch


class Model(torch.nn.Module):
    def forward(self, tensors):
        last = tensors.pop()
        last.unsqueeze_(0)
        return tensors.pop() - last


def get_inputs():
    return [[torch.randn(30, 40), torch.randn(40)]]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def less_row(x, row, y, n, columns, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(y + i, tl.load(x + i, mask=mask) - tl.load(row + i % columns, mask=mask), mask=mask)


class ModelNew(torch.nn.Module):
    def forward(self, tensors):
        last = tensors.pop()
        last.unsqueeze_(0)
        x = tensors.pop()
        y = torch.empty_like(x)
        less_row[(triton.cdiv(x.numel(), 256),)](x, last, y, x.numel(), x.shape[1], BLOCK=256)
        return y
