import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.cumprod(x, dim=0)


def get_inputs():
    return [torch.rand(15, 40) + 0.5]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def cumprod_columns(x_ptr, y_ptr, M, N, BLOCK: tl.constexpr):
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    product = tl.full((BLOCK,), 1.0, tl.float32)
    for m in range(M):
        product *= tl.load(x_ptr + m * N + n, mask=n < N, other=1.0)
        tl.store(y_ptr + m * N + n, product, mask=n < N)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        M, N = x.shape
        y = torch.empty((M, N), device=x.device, dtype=x.dtype)
        cumprod_columns[(triton.cdiv(N, 32),)](x, y, M, N, BLOCK=32)
        return y
