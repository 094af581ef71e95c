import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:])])

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


def get_inputs():
    return [torch.randn(9, 12)]


def get_init_inputs():
    return [[12, 20, 7]]
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def dense(x, w, b, y, N, K, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0)
    n = tl.arange(0, BN)
    k = tl.arange(0, BK)
    xv = tl.load(x + row * K + k, mask=k < K, other=0.0)
    wv = tl.load(w + n[:, None] * K + k[None, :], mask=(n[:, None] < N) & (k[None, :] < K), other=0.0)
    z = tl.sum(wv * xv[None, :], axis=1) + tl.load(b + n, mask=n < N, other=0.0)
    tl.store(y + row * N + n, tanh(z), mask=n < N)


class DenseTanh(nn.Linear):
    def forward(self, x):
        y = torch.empty(x.shape[0], self.out_features, device=x.device, dtype=x.dtype)
        dense[(x.shape[0],)](
            x, self.weight, self.bias, y, self.out_features, self.in_features,
            BN=triton.next_power_of_2(self.out_features), BK=triton.next_power_of_2(self.in_features),
        )
        return y


class ModelNew(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = nn.ModuleList(DenseTanh(i, o) for i, o in zip(sizes, sizes[1:]))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
