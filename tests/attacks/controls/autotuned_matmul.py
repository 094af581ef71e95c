# problem: matmul
# Tiles, stages and warps are chosen by the decorator, as in Triton's tutorial.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BM": 16, "BN": 32, "BK": 16, "GROUP": 2}, num_stages=2, num_warps=2),
        triton.Config({"BM": 32, "BN": 32, "BK": 32, "GROUP": 1}, num_stages=3, num_warps=4),
        triton.Config({"BM": 32, "BN": 16, "BK": 64, "GROUP": 4}, num_stages=1, num_warps=4),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    out_ptr,
    M,
    N,
    K,
    am,
    ak,
    bk,
    bn,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
):
    program, high, wide = tl.program_id(0), tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = program // (GROUP * wide) * GROUP
    group = min(high - first, GROUP)
    block_row, block_column = first + program % (GROUP * wide) % group, program % (GROUP * wide) // group
    row = block_row * BM + tl.arange(0, BM)[:, None]
    column = block_column * BN + tl.arange(0, BN)[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        across, down = start + tl.arange(0, BK)[None, :], start + tl.arange(0, BK)[:, None]
        a = tl.load(a_ptr + row * am + across * ak, mask=(row < M) & (across < K), other=0.0)
        b = tl.load(b_ptr + down * bk + column * bn, mask=(down < K) & (column < N), other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
    tl.store(out_ptr + row * N + column, total, mask=(row < M) & (column < N))


class ModelNew(nn.Module):
    def forward(self, a, b):
        (M, K), N = a.shape, b.shape[1]
        out = torch.empty((M, N), dtype=a.dtype, device=a.device)
        matmul_kernel[lambda meta: (triton.cdiv(M, meta["BM"]) * triton.cdiv(N, meta["BN"]),)](
            a, b, out, M, N, K, a.stride(0), a.stride(1), b.stride(0), b.stride(1)
        )
        return out
