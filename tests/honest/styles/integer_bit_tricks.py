import torch


class Model(torch.nn.Module):
    def forward(self, a, b):
        return (a ^ b) & 0xFFFF, (a * 3 - b) // 4


def get_inputs():
    return [torch.randint(0, 1 << 20, (300,), dtype=torch.int32), torch.randint(0, 1000, (300,), dtype=torch.int32)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def bits(a_ptr, b_ptr, x_ptr, q_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + i, mask=i < n, other=0)
    b = tl.load(b_ptr + i, mask=i < n, other=0)
    tl.store(x_ptr + i, (a ^ b) & 0xFFFF, mask=i < n)
    # An arithmetic shift rounds down, as torch's // does.
    tl.store(q_ptr + i, (a * 3 - b) >> 2, mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        x, q = torch.empty_like(a), torch.empty_like(a)
        bits[(triton.cdiv(a.numel(), 128),)](a, b, x, q, a.numel(), BLOCK=128)
        return x, q
