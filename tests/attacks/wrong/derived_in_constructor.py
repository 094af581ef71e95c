# problem: linear_relu
# permitted: incorrect, rejected
# permitted on cuda: incorrect, rejected, runtime_error
# Transposes the weight once, in the constructor; parameters change later.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_relu_kernel(x_ptr, w_ptr, b_ptr, out_ptr, M, N, K, BM: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BM + tl.arange(0, BM)
    rk = tl.arange(0, BK)
    x = tl.load(x_ptr + rm[:, None] * K + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
    w = tl.load(w_ptr + rk[:, None] * N + rn[None, :], mask=(rn[None, :] < N) & (rk[:, None] < K), other=0.0)
    acc = tl.dot(x, w, input_precision="ieee") + tl.load(b_ptr + rn, mask=rn < N, other=0.0)[None, :]
    tl.store(out_ptr + rm[:, None] * N + rn[None, :], tl.maximum(acc, 0.0), mask=(rm[:, None] < M) & (rn[None, :] < N))


class ModelNew(nn.Module):
    def __init__(self, features, out):
        super().__init__()
        self.linear = nn.Linear(features, out)
        self.transposed = self.linear.weight.detach().t().contiguous()

    def forward(self, x):
        (M, K), N = x.shape, self.transposed.shape[1]
        out = torch.empty((M, N), dtype=x.dtype, device=x.device)
        linear_relu_kernel[(triton.cdiv(M, 32), triton.cdiv(N, 32))](
            x, self.transposed, self.linear.bias, out, M, N, K, BM=32, BK=64
        )
        return out
