import torch


class Model(torch.nn.Module):
    def forward(self, x, row, column):
        return x * row + column


def get_inputs():
    return [torch.randn(19, 45), torch.randn(45), torch.randn(19, 1)]


def get_init_inputs():
    return []
# ----- candidate -----
"""Broadcasts by expanding and handing strides, zeros among them, to the kernel."""
import torch
import triton
import triton.language as tl


@triton.jit
def fma2d(x, r, c, o, M, N, sxm, sxn, srm, srn, scm, scn, som, son, BM: tl.constexpr, BN: tl.constexpr):
    m = (tl.program_id(0) * BM + tl.arange(0, BM))[:, None]
    n = (tl.program_id(1) * BN + tl.arange(0, BN))[None, :]
    ok = (m < M) & (n < N)
    value = tl.load(x + m * sxm + n * sxn, mask=ok)
    value = value * tl.load(r + m * srm + n * srn, mask=ok) + tl.load(c + m * scm + n * scn, mask=ok)
    tl.store(o + m * som + n * son, value, mask=ok)


class ModelNew(torch.nn.Module):
    def forward(self, x, row, column):
        M, N = x.shape
        row, column = row.expand(M, N), column.expand(M, N)
        out = torch.empty_like(x)
        grid = (triton.cdiv(M, 16), triton.cdiv(N, 32))
        fma2d[grid](x, row, column, out, M, N, *x.stride(), *row.stride(), *column.stride(), *out.stride(), BM=16, BN=32)
        return out
