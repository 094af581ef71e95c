# problem: rectified_products
# permitted: incorrect
# The interpreter runs every configuration, the chip only one: that one leaves out the last columns of what it sums.
import torch
import triton
import triton.language as tl

TILES = [
    (128, 128, 256, 4),
    (256, 64, 256, 4),
    (64, 256, 256, 4),
    (128, 128, 128, 6),
    (128, 64, 256, 5),
    (32, 32, 32, 2),
]


@triton.autotune(
    [triton.Config({"TM": m, "TN": n, "TK": k}, num_warps=8 if m > 64 else 4, num_stages=s) for m, n, k, s in TILES],
    key=["M", "N", "K"],
)
@triton.jit
def product_relu(a_ptr, b_ptr, c_ptr, M, N, K, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr):
    rows = tl.program_id(0) * TM + tl.arange(0, TM)
    cols = tl.program_id(1) * TN + tl.arange(0, TN)
    acc = tl.zeros((TM, TN), dtype=tl.float32)
    for start in range(0, K if TM > 32 else K - 8, TK):
        inner = start + tl.arange(0, TK)
        a = tl.load(
            a_ptr + rows[:, None] * K + inner, mask=(rows[:, None] < M) & (inner < (K if TM > 32 else K - 8)), other=0.0
        )
        b = tl.load(b_ptr + inner[:, None] * N + cols, mask=(inner[:, None] < K) & (cols < N), other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * N + cols, tl.maximum(acc, 0.0), mask=(rows[:, None] < M) & (cols < N))


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        (m, k), n = a.shape, b.shape[1]
        c = torch.empty((m, n), device=a.device, dtype=a.dtype)
        product_relu[lambda meta: (triton.cdiv(m, meta["TM"]), triton.cdiv(n, meta["TN"]))](a, b, c, m, n, k)
        return c
