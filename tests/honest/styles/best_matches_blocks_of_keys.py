import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, queries, keys):
        return (queries @ keys.T).argmax(1)


def get_inputs():
    return [torch.randn(56, 32), torch.randn(72, 32)]


def get_init_inputs():
    return []


# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def match_kernel(q_ptr, k_ptr, out_ptr, rows, keys, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m, f = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, K)
    q = tl.load(q_ptr + m[:, None] * K + f[None, :], mask=m[:, None] < rows, other=0.0)
    best = tl.full((BM,), -float("inf"), tl.float32)
    which = tl.zeros((BM,), tl.int32)
    for first in range(0, keys, BN):
        n = first + tl.arange(0, BN)
        k = tl.load(k_ptr + n[None, :] * K + f[:, None], mask=n[None, :] < keys, other=0.0)
        score = tl.where(n[None, :] < keys, tl.dot(q, k, input_precision="ieee"), -float("inf"))
        top = tl.max(score, 1)
        place = first + tl.argmax(score, 1)
        which = tl.where(top > best, place, which)
        best = tl.maximum(best, top)
    tl.store(out_ptr + m, which.to(tl.int64), mask=m < rows)


class ModelNew(nn.Module):
    def forward(self, queries, keys):
        queries, keys = queries.contiguous(), keys.contiguous()
        out = torch.empty(len(queries), dtype=torch.int64, device=queries.device)
        grid = (triton.cdiv(len(queries), 16),)
        match_kernel[grid](queries, keys, out, len(queries), len(keys), K=queries.shape[1], BM=16, BN=32)
        return out
