import torch


class Model(torch.nn.Module):
    def forward(self, a, b, c):
        return a + b + c


def get_inputs():
    return [torch.randn(77), torch.randn(77), torch.randn(77)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def add_all(pointers, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(len(pointers)):
        acc += tl.load(pointers[k] + i, mask=i < n, other=0.0)
    tl.store(y + i, acc, mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, *tensors):
        y = torch.empty_like(tensors[0])
        add_all[(triton.cdiv(y.numel(), 32),)](tensors, y, y.numel(), BLOCK=32)
        return y
