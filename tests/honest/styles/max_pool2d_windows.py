import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, kernel_size, stride, padding):
        super().__init__()
        self.pool = nn.MaxPool2d(kernel_size, stride, padding)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.randn(2, 3, 13, 11)]


def get_init_inputs():
    return [3, 2, 1]
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def maxpool(x, y, H, W, OH, OW, K: tl.constexpr, S: tl.constexpr, P: tl.constexpr, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    o = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    r, c = (o // OW) * S - P, (o % OW) * S - P
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    for i in range(K):
        for j in range(K):
            ok = (o < OH * OW) & (r + i >= 0) & (r + i < H) & (c + j >= 0) & (c + j < W)
            best = tl.maximum(best, tl.load(x + plane * H * W + (r + i) * W + c + j, mask=ok, other=float("-inf")))
    tl.store(y + plane * OH * OW + o, best, mask=o < OH * OW)


class ModelNew(nn.Module):
    def __init__(self, kernel_size, stride, padding):
        super().__init__()
        self.args = kernel_size, stride, padding

    def forward(self, x):
        K, S, P = self.args
        N, C, H, W = x.shape
        OH, OW = (H + 2 * P - K) // S + 1, (W + 2 * P - K) // S + 1
        y = torch.empty((N, C, OH, OW), dtype=x.dtype, device=x.device)
        maxpool[(N * C, triton.cdiv(OH * OW, 32))](x.contiguous(), y, H, W, OH, OW, K=K, S=S, P=P, BLOCK=32)
        return y
