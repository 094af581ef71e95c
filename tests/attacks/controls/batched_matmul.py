# problem: batched_matmul
# A product for each batch on a grid of three dimensions, by strides.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def product_kernel(a_ptr, b_ptr, out_ptr, M, N, K, batch_a, batch_b, batch_out, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    batch = tl.program_id(2)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for first in range(0, K, BLOCK):
        across, down = first + tl.arange(0, BLOCK)[None, :], first + tl.arange(0, BLOCK)[:, None]
        a = tl.load(a_ptr + batch * batch_a + row * K + across, mask=(row < M) & (across < K), other=0.0)
        b = tl.load(b_ptr + batch * batch_b + down * N + column, mask=(down < K) & (column < N), other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
    tl.store(out_ptr + batch * batch_out + row * N + column, total, mask=(row < M) & (column < N))


class ModelNew(nn.Module):
    def forward(self, a, b):
        (batch, M, K), N = a.shape, b.shape[2]
        out = torch.empty((batch, M, N), dtype=a.dtype, device=a.device)
        grid = (triton.cdiv(M, 16), triton.cdiv(N, 16), batch)
        product_kernel[grid](a, b, out, M, N, K, a.stride(0), b.stride(0), out.stride(0), BLOCK=16)
        return out
