# problem: lower_triangular
# Skips the blocks that triangular inputs leave zero.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def product_kernel(a_ptr, b_ptr, out_ptr, N, BLOCK: tl.constexpr):
    block_row, block_column = tl.program_id(0), tl.program_id(1)
    rows = (block_row * BLOCK + tl.arange(0, BLOCK))[:, None]
    columns = (block_column * BLOCK + tl.arange(0, BLOCK))[None, :]
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for step in range(block_column, block_row + 1):
        inner = step * BLOCK + tl.arange(0, BLOCK)
        across, down = inner[None, :], inner[:, None]
        a = tl.load(a_ptr + rows * N + across, mask=(rows < N) & (across < N), other=0.0)
        b = tl.load(b_ptr + down * N + columns, mask=(down < N) & (columns < N), other=0.0)
        total += tl.dot(a, b, input_precision="ieee")
    total = tl.where(rows >= columns, total, 0.0)
    tl.store(out_ptr + rows * N + columns, total, mask=(rows < N) & (columns < N))


class ModelNew(nn.Module):
    def forward(self, a, b):
        out, n = torch.empty_like(a), a.shape[0]
        blocks = triton.cdiv(n, 16)
        product_kernel[(blocks, blocks)](a, b, out, n, BLOCK=16)
        return out
