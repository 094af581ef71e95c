import torch


class Model(torch.nn.Module):
    def forward(self, a, b, c):
        return torch.tanh(torch.cat([a, b, c], dim=1))


def get_inputs():
    return [torch.randn(8, 11), torch.randn(8, 20), torch.randn(8, 5)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice


@triton.jit
def tanh_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, libdevice.tanh(tl.load(x + i, mask=i < n, other=0.0)), mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, *parts):
        joined = torch.cat(parts, 1)
        tanh_kernel[(triton.cdiv(joined.numel(), 128),)](joined, joined, joined.numel(), BLOCK=128)
        return joined
