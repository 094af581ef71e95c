import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.stack([x.exp(), x.neg(), x.square()])


def get_inputs():
    return [torch.randn(6, 30)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def three(x_ptr, e_ptr, m_ptr, s_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(e_ptr + i, tl.exp(x), mask=i < n)
    tl.store(m_ptr + i, -x, mask=i < n)
    tl.store(s_ptr + i, x * x, mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        outs = [torch.empty_like(x) for _ in range(3)]
        three[(triton.cdiv(x.numel(), 128),)](x, *outs, x.numel(), BLOCK=128)
        return torch.stack(outs, dim=0)
