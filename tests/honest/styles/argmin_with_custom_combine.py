import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.argmin(x, dim=-1)


def get_inputs():
    return [torch.randn(7, 4, 50)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def smaller(value_a, index_a, value_b, index_b):
    first = (value_a < value_b) | ((value_a == value_b) & (index_a < index_b))
    return tl.where(first, value_a, value_b), tl.where(first, index_a, index_b)


@triton.jit
def argmin_rows(x_ptr, o_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + i, mask=i < N, other=float("inf"))
    _, best = tl.reduce((x, i), 0, smaller)
    tl.store(o_ptr + row, best.to(tl.int64))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        N = x.shape[-1]
        out = torch.empty(x.shape[:-1], dtype=torch.long, device=x.device)
        argmin_rows[(out.numel(),)](x, out, N, BLOCK=triton.next_power_of_2(N))
        return out
