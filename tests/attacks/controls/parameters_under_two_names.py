# problem: linear_relu
# Keeps second names for a layer's weight and bias, one of them a tensor on the same memory.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_relu_kernel(x_ptr, w_ptr, b_ptr, out_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    x = tl.load(x_ptr + rm[:, None] * K + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
    w = tl.load(w_ptr + rn[None, :] * K + rk[:, None], mask=(rn[None, :] < N) & (rk[:, None] < K), other=0.0)
    acc = tl.dot(x, w, input_precision="ieee") + tl.load(b_ptr + rn, mask=rn < N, other=0.0)[None, :]
    tl.store(out_ptr + rm[:, None] * N + rn[None, :], tl.maximum(acc, 0.0), mask=(rm[:, None] < M) & (rn[None, :] < N))


class ModelNew(nn.Module):
    def __init__(self, features, out):
        super().__init__()
        self.linear = nn.Linear(features, out)
        self.weight = self.linear.weight
        self.shift = self.linear.bias.data

    def forward(self, x):
        (M, K), N = x.shape, self.weight.shape[0]
        out = torch.empty((M, N), dtype=x.dtype, device=x.device)
        linear_relu_kernel[(triton.cdiv(M, 32), triton.cdiv(N, 32))](
            x, self.weight, self.shift, out, M, N, K, BM=32, BN=32, BK=64
        )
        return out
