# problem: perceptron
# Three kernels in a chain: two layers, the activation fused into the first, and a softmax in place.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_kernel(x_ptr, w_ptr, b_ptr, out_ptr, M, N, K, GATED: tl.constexpr, BLOCK: tl.constexpr, INNER: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for first in range(0, K, INNER):
        across, down = first + tl.arange(0, INNER)[None, :], first + tl.arange(0, INNER)[:, None]
        x = tl.load(x_ptr + row * K + across, mask=(row < M) & (across < K), other=0.0)
        w = tl.load(w_ptr + column * K + down, mask=(down < K) & (column < N), other=0.0)
        total += tl.dot(x, w, input_precision="ieee")
    total += tl.load(b_ptr + column, mask=column < N, other=0.0)
    if GATED:
        total = total * tl.sigmoid(total)
    tl.store(out_ptr + row * N + column, total, mask=(row < M) & (column < N))


@triton.jit
def softmax_kernel(x_ptr, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * columns + tl.arange(0, BLOCK)
    mask = tl.arange(0, BLOCK) < columns
    x = tl.load(x_ptr + at, mask=mask, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(x_ptr + at, e / tl.sum(e, axis=0), mask=mask)


def linear(x, layer, gated):
    (M, K), N = x.shape, layer.weight.shape[0]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, 16), triton.cdiv(N, 16))
    linear_kernel[grid](x, layer.weight, layer.bias, out, M, N, K, GATED=gated, BLOCK=16, INNER=32)
    return out


class ModelNew(nn.Module):
    def __init__(self, features, hidden, out):
        super().__init__()
        self.up = nn.Linear(features, hidden)
        self.down = nn.Linear(hidden, out)

    def forward(self, x):
        out = linear(linear(x, self.up, True), self.down, False)
        softmax_kernel[(out.shape[0],)](out, out.shape[1], BLOCK=triton.next_power_of_2(out.shape[1]))
        return out
