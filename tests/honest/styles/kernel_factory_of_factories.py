import torch
import torch.nn as nn
class Model(nn.Module):
    def forward(self, x):
        return torch.sum(torch.square(x - 0.5), dim=-1), torch.amax(torch.abs(x + 0.25), dim=-1)
def get_inputs():
    return [torch.randn(11, 83)]
def get_init_inputs():
    return []
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _add(a, b):
    return a + b


@triton.jit
def _max(a, b):
    return tl.maximum(a, b)


def shifted_square(c):
    C = tl.constexpr(c)

    @triton.jit
    def f(v):
        d = v - C
        return d * d

    return f


def shifted_abs(c):
    C = tl.constexpr(c)

    @triton.jit
    def f(v):
        return tl.abs(v - C)

    return f


def make_row_reduce(map_fn, combine, neutral):
    NEUTRAL = tl.constexpr(neutral)

    @triton.jit
    def reduce_tile(v, m):
        return tl.reduce(tl.where(m, map_fn(v), NEUTRAL), 0, combine)

    @triton.jit
    def kernel(X, Y, N, B: tl.constexpr):
        r = tl.program_id(0).to(tl.int64)
        c = tl.arange(0, B)
        m = c < N
        tl.store(Y + r, reduce_tile(tl.load(X + r * N + c, mask=m, other=0.0), m))

    return kernel


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.sumsq = make_row_reduce(shifted_square(0.5), _add, 0.0)
        self.maxabs = make_row_reduce(shifted_abs(-0.25), _max, float("-inf"))

    def forward(self, x):
        x = x.contiguous()
        rows, n = x.shape
        s, m = x.new_empty(rows), x.new_empty(rows)
        B = triton.next_power_of_2(n)
        self.sumsq[(rows,)](x, s, n, B=B)
        self.maxabs[(rows,)](x, m, n, B=B)
        return s, m
