import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, cin, cout, kernel, stride, padding):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, kernel, stride=stride, padding=padding)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(2, 3, 25)]


def get_init_inputs():
    return [3, 4, 3, 2, 1]
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def conv1d(x, w, b, y, CIN, LIN, COUT, LOUT, K: tl.constexpr, S: tl.constexpr, P: tl.constexpr, BLOCK: tl.constexpr):
    n = tl.program_id(0) // COUT
    co = tl.program_id(0) % COUT
    l = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32) + tl.load(b + co)
    for ci in range(CIN):
        for k in tl.static_range(K):
            at = l * S - P + k
            v = tl.load(x + (n * CIN + ci) * LIN + at, mask=(at >= 0) & (at < LIN), other=0.0)
            acc += v * tl.load(w + (co * CIN + ci) * K + k)
    tl.store(y + (n * COUT + co) * LOUT + l, acc, mask=l < LOUT)


class ModelNew(nn.Module):
    def __init__(self, *args):
        super().__init__()
        cin, cout, kernel, stride, padding = args
        self.conv = nn.Conv1d(cin, cout, kernel, stride=stride, padding=padding)

    def forward(self, x):
        c = self.conv
        (K,), (S,), (P,) = c.kernel_size, c.stride, c.padding
        N, CIN, LIN = x.shape
        LOUT = (LIN + 2 * P - K) // S + 1
        y = torch.empty(N, c.out_channels, LOUT, device=x.device, dtype=x.dtype)
        conv1d[(N * c.out_channels, triton.cdiv(LOUT, 16))](x, c.weight, c.bias, y, CIN, LIN, c.out_channels, LOUT, K, S, P, BLOCK=16)
        return y
