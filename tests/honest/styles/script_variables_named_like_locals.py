import torch


class Model(torch.nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(40, 70), torch.randn(70, 36)]


def get_init_inputs():
    return []


# ----- candidate -----
import torch
import triton
import triton.language as tl

k, step = 64, 16


@triton.jit
def product(x_ptr, y_ptr, out_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        inner = start + tl.arange(0, BK)
        a = tl.load(
            x_ptr + rows[:, None] * K + inner[None, :], mask=(rows[:, None] < M) & (inner[None, :] < K), other=0.0
        )
        b = tl.load(
            y_ptr + inner[:, None] * N + columns[None, :], mask=(inner[:, None] < K) & (columns[None, :] < N), other=0.0
        )
        total = tl.dot(a, b, total, input_precision="ieee")
    if BM > 8:
        out = out_ptr + rows[:, None] * N + columns[None, :]
    else:
        out = out_ptr + columns[None, :] + rows[:, None] * N
    tl.store(out, total, mask=(rows[:, None] < M) & (columns[None, :] < N))


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        (M, K), N = x.shape, y.shape[1]
        result = torch.empty((M, N), device=x.device, dtype=x.dtype)
        product[(triton.cdiv(M, 16), triton.cdiv(N, 16))](x, y, result, M, N, K, BM=16, BN=16, BK=step)
        return result


# What stood at the end of the file when it was tried out.
a = torch.randn(k, k)
b = torch.randn(k, k)
out = ModelNew
