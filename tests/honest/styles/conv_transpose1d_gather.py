import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, cin, cout, k, stride):
        super().__init__()
        self.up = nn.ConvTranspose1d(cin, cout, k, stride=stride)

    def forward(self, x):
        return self.up(x)


def get_inputs():
    return [torch.randn(2, 3, 14)]


def get_init_inputs():
    return [3, 4, 4, 2]
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def upsample(x, w, b, y, CIN, LIN, COUT, LOUT, K: tl.constexpr, S: tl.constexpr, BLOCK: tl.constexpr):
    n, co = tl.program_id(0) // COUT, tl.program_id(0) % COUT
    o = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32) + tl.load(b + co)
    for ci in range(CIN):
        for k in tl.static_range(K):
            source = o - k
            i = source // S
            ok = (source >= 0) & (source % S == 0) & (i < LIN)
            acc += tl.load(x + (n * CIN + ci) * LIN + i, mask=ok, other=0.0) * tl.load(w + (ci * COUT + co) * K + k)
    tl.store(y + (n * COUT + co) * LOUT + o, acc, mask=o < LOUT)


class ModelNew(nn.Module):
    def __init__(self, cin, cout, k, stride):
        super().__init__()
        self.up = nn.ConvTranspose1d(cin, cout, k, stride=stride)

    def forward(self, x):
        K, S = self.up.kernel_size[0], self.up.stride[0]
        N, CIN, LIN = x.shape
        COUT, LOUT = self.up.out_channels, (LIN - 1) * S + K
        y = torch.empty((N, COUT, LOUT), device=x.device)
        upsample[(N * COUT, triton.cdiv(LOUT, 16))](x, self.up.weight, self.up.bias, y, CIN, LIN, COUT, LOUT, K=K, S=S, BLOCK=16)
        return y
