import torch


class Model(torch.nn.Module):
    def forward(self, A, B):
        return torch.matmul(A, B)


M, K, N = 40, 48, 56


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, N)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


def configs():
    return [
        triton.Config({"BM": bm, "BN": bn, "BK": 16}, num_warps=w, num_stages=s)
        for bm, bn in ((16, 32), (32, 32))
        for w, s in ((4, 2), (2, 3))
    ]


@triton.autotune(configs=configs(), key=["M", "N", "K"])
@triton.jit
def mm(A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        a = tl.load(A + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(B + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc += tl.dot(a, b, input_precision="ieee")
    tl.store(C + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(torch.nn.Module):
    def forward(self, A, B):
        A, B = A.contiguous(), B.contiguous()
        (M, K), N = A.shape, B.shape[1]
        C = torch.empty((M, N), device="cuda", dtype=A.dtype)
        mm[lambda META: (triton.cdiv(M, META["BM"]), triton.cdiv(N, META["BN"]))](A, B, C, M, N, K)
        return C
