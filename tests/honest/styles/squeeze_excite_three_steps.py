import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, reduction):
        super().__init__()
        self.fc1 = nn.Linear(channels, channels // reduction)
        self.fc2 = nn.Linear(channels // reduction, channels)

    def forward(self, x):
        s = x.mean(dim=(2, 3))
        s = torch.sigmoid(self.fc2(torch.relu(self.fc1(s))))
        return x * s[:, :, None, None]


def get_inputs():
    return [torch.randn(3, 8, 6, 5)]


def get_init_inputs():
    return [8, 2]
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pool(x, s, S, BLOCK: tl.constexpr):
    nc = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    tl.store(s + nc, tl.sum(tl.load(x + nc * S + i, mask=i < S, other=0.0)) / S)


@triton.jit
def fc(x, w, b, y, K, N, ACT: tl.constexpr, BK: tl.constexpr, BN: tl.constexpr):
    r = tl.program_id(0)
    k, n = tl.arange(0, BK), tl.arange(0, BN)
    xv = tl.load(x + r * K + k, mask=k < K, other=0.0)
    wv = tl.load(w + n[:, None] * K + k[None, :], mask=(n[:, None] < N) & (k[None, :] < K), other=0.0)
    z = tl.sum(wv * xv[None, :], 1) + tl.load(b + n, mask=n < N, other=0.0)
    if ACT == "relu":
        z = tl.maximum(z, 0.0)
    elif ACT == "sigmoid":
        z = tl.sigmoid(z)
    tl.store(y + r * N + n, z, mask=n < N)


@triton.jit
def gate(x, s, y, S, BLOCK: tl.constexpr):
    nc = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    tl.store(y + nc * S + i, tl.load(x + nc * S + i, mask=i < S) * tl.load(s + nc), mask=i < S)


def linear(x, layer, activation):
    K, N = layer.in_features, layer.out_features
    y = x.new_empty(x.shape[0], N)
    fc[(x.shape[0],)](x, layer.weight, layer.bias, y, K, N, ACT=activation, BK=triton.next_power_of_2(K), BN=triton.next_power_of_2(N))
    return y


class ModelNew(nn.Module):
    def __init__(self, channels, reduction):
        super().__init__()
        self.fc1 = nn.Linear(channels, channels // reduction)
        self.fc2 = nn.Linear(channels // reduction, channels)

    def forward(self, x):
        n, c, h, w = x.shape
        block = triton.next_power_of_2(h * w)
        s = x.new_empty(n, c)
        pool[(n * c,)](x, s, h * w, BLOCK=block)
        s = linear(linear(s, self.fc1, "relu"), self.fc2, "sigmoid")
        y = torch.empty_like(x)
        gate[(n * c,)](x, s, y, h * w, BLOCK=block)
        return y
