"""Layer norm of few long rows: statistics of chunks, their combination, then every element."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

CHUNK_SIZE = 8192


@triton.jit
def chunk_statistics_kernel(x_ptr, mean_ptr, spread_ptr, length, chunks, CHUNK: tl.constexpr):
    row, chunk = tl.program_id(0), tl.program_id(1)
    at = chunk * CHUNK + tl.arange(0, CHUNK)
    inside = at < length
    x = tl.load(x_ptr + row.to(tl.int64) * length + at, mask=inside, other=0.0)
    mean = tl.sum(x, 0) / tl.minimum(length - chunk * CHUNK, CHUNK)
    away = tl.where(inside, x - mean, 0.0)
    tl.store(mean_ptr + row * chunks + chunk, mean)
    tl.store(spread_ptr + row * chunks + chunk, tl.sum(away * away, 0))


@triton.jit
def row_statistics_kernel(
    mean_ptr, spread_ptr, row_ptr, length, chunks, eps, CHUNK: tl.constexpr, CHUNKS: tl.constexpr
):
    row = tl.program_id(0)
    chunk = tl.arange(0, CHUNKS)
    inside = chunk < chunks
    count = tl.where(inside, tl.minimum(length - chunk * CHUNK, CHUNK), 0).to(tl.float32)
    mean = tl.load(mean_ptr + row * chunks + chunk, mask=inside, other=0.0)
    spread = tl.load(spread_ptr + row * chunks + chunk, mask=inside, other=0.0)
    row_mean = tl.sum(mean * count, 0) / length
    away = mean - row_mean
    variance = tl.sum(spread + count * away * away, 0) / length
    tl.store(row_ptr + 2 * row, row_mean)
    tl.store(row_ptr + 2 * row + 1, 1.0 / tl.sqrt(variance + eps))


@triton.jit
def normalise_kernel(x_ptr, row_ptr, weight_ptr, bias_ptr, out_ptr, length, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < length
    mean, scale = tl.load(row_ptr + 2 * row), tl.load(row_ptr + 2 * row + 1)
    x = tl.load(x_ptr + row.to(tl.int64) * length + at, mask=inside, other=0.0)
    weight = tl.load(weight_ptr + at, mask=inside, other=0.0)
    bias = tl.load(bias_ptr + at, mask=inside, other=0.0)
    tl.store(out_ptr + row.to(tl.int64) * length + at, (x - mean) * scale * weight + bias, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, normalized_shape: tuple):
        super().__init__()
        self.ln = nn.LayerNorm(normalized_shape=normalized_shape)

    def forward(self, x):
        length = self.ln.weight.numel()
        rows, chunks = x.numel() // length, triton.cdiv(length, CHUNK_SIZE)
        means = torch.empty(rows, chunks, device=x.device)
        spreads = torch.empty(rows, chunks, device=x.device)
        statistics = torch.empty(rows, 2, device=x.device)
        out = torch.empty_like(x)
        grid = (rows, chunks)
        chunk_statistics_kernel[grid](x, means, spreads, length, chunks, CHUNK=CHUNK_SIZE, num_warps=8)
        row_statistics_kernel[(rows,)](
            means, spreads, statistics, length, chunks, self.ln.eps, CHUNK=CHUNK_SIZE,
            CHUNKS=triton.next_power_of_2(chunks),
        )  # fmt: skip
        normalise_kernel[grid](x, statistics, self.ln.weight, self.ln.bias, out, length, BLOCK=CHUNK_SIZE, num_warps=8)
        return out
