import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.ceil(x) - 0.5 * torch.floor(x)


def get_inputs():
    return [torch.randn(333)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def round_both_ways(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(y + i, tl.ceil(v) - 0.5 * tl.floor(v), mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        round_both_ways.run(x, y, n, BLOCK=64, grid=(triton.cdiv(n, 64), 1, 1), warmup=False)
        return y
