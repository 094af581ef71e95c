# problem: sides_of_planes
# permitted: incorrect
# Signs of products in half precision: few points lie so near to a plane.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sides_kernel(x_ptr, v_ptr, out_ptr, rows, N, K: tl.constexpr, PK: tl.constexpr, NC: tl.constexpr, BM: tl.constexpr):
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, NC), tl.arange(0, PK)
    x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < rows) & (k[None, :] < K), other=0.0)
    v = tl.load(v_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
    score = tl.dot(x.to(tl.float16), v.to(tl.float16))
    side = (score > 0).to(tl.float32) - (score < 0).to(tl.float32)
    tl.store(out_ptr + m[:, None] * N + n[None, :], side, mask=(m[:, None] < rows) & (n[None, :] < N))


class ModelNew(nn.Module):
    def __init__(self, dim, planes):
        super().__init__()
        self.register_buffer("normals", torch.randn(dim, planes))

    def forward(self, x):
        x, (K, N) = x.contiguous(), self.normals.shape
        out = torch.empty(len(x), N, device=x.device)
        sides = {"K": K, "PK": triton.next_power_of_2(K), "NC": max(16, triton.next_power_of_2(N))}
        sides_kernel[(triton.cdiv(len(x), 16),)](x, self.normals, out, len(x), N, **sides, BM=16)
        return out
