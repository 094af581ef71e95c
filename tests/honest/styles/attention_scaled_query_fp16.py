import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


def get_inputs():
    return [torch.randn(2, 3, 24, 16, dtype=torch.float16) for _ in range(3)]


def get_init_inputs():
    return []
# ----- candidate -----
"""Scales the query once, in half precision, as early tutorials do: one rounding of an input."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def attend(q_ptr, k_ptr, v_ptr, o_ptr, n, scale, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    head = tl.program_id(1) * n * D
    rows = tl.program_id(0) * M + tl.arange(0, M)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + head + rows[:, None] * D + d[None, :], mask=rows[:, None] < n, other=0.0)
    q = (q * scale).to(tl.float16)
    peak = tl.full([M], -float("inf"), tl.float32)
    total = tl.zeros([M], tl.float32)
    acc = tl.zeros([M, D], tl.float32)
    for start in range(0, n, N):
        cols = start + tl.arange(0, N)
        k = tl.load(k_ptr + head + cols[None, :] * D + d[:, None], mask=cols[None, :] < n, other=0.0)
        s = tl.where(cols[None, :] < n, tl.dot(q, k), -float("inf"))
        higher = tl.maximum(peak, tl.max(s, 1))
        p = tl.exp2(s - higher[:, None])
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(p, 1)
        v = tl.load(v_ptr + head + cols[:, None] * D + d[None, :], mask=cols[:, None] < n, other=0.0)
        acc = acc * shrink[:, None] + tl.dot(p.to(tl.float16), v)
        peak = higher
    acc = acc / total[:, None]
    tl.store(o_ptr + head + rows[:, None] * D + d[None, :], acc.to(tl.float16), mask=rows[:, None] < n)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        b, h, n, d = q.shape
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        o = torch.empty_like(q)
        attend[(triton.cdiv(n, 16), b * h)](q, k, v, o, n, d**-0.5 * 1.4426950408889634, D=d, M=16, N=16)
        return o
