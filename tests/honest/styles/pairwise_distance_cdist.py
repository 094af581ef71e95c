import torch


class Model(torch.nn.Module):
    def forward(self, a, b):
        return torch.cdist(a, b, p=1.0)


def get_inputs():
    return [torch.randn(17, 9), torch.randn(22, 9)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def l1_distances(a, b, o, M, N, D, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for d in range(D):
        left = tl.load(a + m * D + d, mask=m < M, other=0.0)
        right = tl.load(b + n * D + d, mask=n < N, other=0.0)
        acc += tl.abs(left[:, None] - right[None, :])
    tl.store(o + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        out = torch.empty(len(a), len(b), device=a.device)
        grid = tuple(triton.cdiv(len(t), 8) for t in (a, b))
        l1_distances[grid](a, b, out, len(a), len(b), a.size(-1), BM=8, BN=8)
        return out
