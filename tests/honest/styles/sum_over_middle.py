import torch


class Model(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return torch.sum(x, dim=self.dim, keepdim=True)


def get_inputs():
    return [torch.randn(4, 35, 22)]


def get_init_inputs():
    return [1]
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def reduce_middle(x_ptr, y_ptr, K, N, BK: tl.constexpr, BN: tl.constexpr):
    b = tl.program_id(0)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BN,), dtype=tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        p = x_ptr + b * K * N + k[:, None] * N + n[None, :]
        acc += tl.sum(tl.load(p, mask=(k[:, None] < K) & (n[None, :] < N), other=0.0), axis=0)
    tl.store(y_ptr + b * N + n, acc, mask=n < N)


class ModelNew(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        # Any axis, seen as the middle of three.
        d = self.dim % x.dim()
        before = x.shape[:d]
        after = x.shape[d + 1:]
        B = int(torch.Size(before).numel())
        N = int(torch.Size(after).numel())
        K = x.shape[d]
        y = torch.empty((*before, 1, *after), device=x.device, dtype=x.dtype)
        reduce_middle[(B, triton.cdiv(N, 16))](x.contiguous(), y, K, N, BK=16, BN=16)
        return y
