# problem: matmul
# permitted: incorrect
# A product of halves, summed in single precision, in a single precision problem.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, out_ptr, M, N, K, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for first in range(0, K, BLOCK):
        across, down = first + tl.arange(0, BLOCK)[None, :], first + tl.arange(0, BLOCK)[:, None]
        a = tl.load(a_ptr + row * K + across, mask=(row < M) & (across < K), other=0.0)
        b = tl.load(b_ptr + down * N + column, mask=(down < K) & (column < N), other=0.0)
        total = tl.dot(a.to(tl.float16), b.to(tl.float16), total)
    tl.store(out_ptr + row * N + column, total, mask=(row < M) & (column < N))


class ModelNew(nn.Module):
    def forward(self, a, b):
        (M, K), N = a.shape, b.shape[1]
        out = torch.empty((M, N), dtype=a.dtype, device=a.device)
        matmul_kernel[(triton.cdiv(M, 32), triton.cdiv(N, 32))](a, b, out, M, N, K, BLOCK=32)
        return out
