import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.i2h = nn.Linear(input_size + hidden_size, hidden_size)

    def forward(self, x, h):
        return torch.tanh(self.i2h(torch.cat((x, h), dim=1)))


def get_inputs():
    return [torch.randn(8, 10), torch.randn(8, 14)]


def get_init_inputs():
    return [10, 14]
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cell(xh, w, b, o, N, K, BN: tl.constexpr, BK: tl.constexpr):
    r = tl.program_id(0)
    n = tl.arange(0, BN)
    acc = tl.load(b + n, mask=n < N, other=0.0)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        left = tl.load(xh + r * K + k, mask=k < K, other=0.0)
        acc += tl.sum(tl.load(w + n[:, None] * K + k[None, :], mask=(n[:, None] < N) & (k[None, :] < K), other=0.0) * left[None, :], 1)
    e = tl.exp(-2 * tl.abs(acc))
    t = (1 - e) / (1 + e)
    tl.store(o + r * N + n, tl.where(acc < 0, -t, t), mask=n < N)


class ModelNew(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.i2h = nn.Linear(input_size + hidden_size, hidden_size)

    def forward(self, x, h):
        joined = torch.cat((x, h), dim=1)
        out = torch.empty_like(h)
        K, N = joined.shape[1], h.shape[1]
        cell[(x.shape[0],)](joined, self.i2h.weight, self.i2h.bias, out, N, K, BN=triton.next_power_of_2(N), BK=8)
        return out
