import torch


class Model(torch.nn.Module):
    def forward(self, x):
        half = x.shape[1] // 2
        return torch.cat([x[:, :half].sigmoid(), x[:, half:].exp()], dim=1)


def get_inputs():
    return [torch.randn(10, 34)]


def get_init_inputs():
    return []
# ----- candidate -----
"""Two kernels write to two halves of one output through strided views."""
import torch
import triton
import triton.language as tl


@triton.jit
def apply(x, y, N, sx, sy, EXP: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + r * sx + i, mask=i < N, other=0.0)
    v = tl.exp(v) if EXP else tl.sigmoid(v)
    tl.store(y + r * sy + i, v, mask=i < N)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x, memory_format=torch.contiguous_format)
        half = x.shape[1] // 2
        for part, exp in ((slice(None, half), False), (slice(half, None), True)):
            a, b = x[:, part], y[:, part]
            apply[(x.shape[0],)](a, b, a.shape[1], a.stride(0), b.stride(0), EXP=exp, BLOCK=triton.next_power_of_2(a.shape[1]))
        return y
