import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.log_softmax(x, dim=1)


def get_inputs():
    return [torch.randn(9, 205)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def log_softmax(x_ptr, y_ptr, N, TILE_N: tl.constexpr):
    pid = tl.program_id(0)
    m = tl.full([TILE_N], value=float("-inf"), dtype=tl.float32)
    z = tl.full([TILE_N], value=0.0, dtype=tl.float32)
    for start in range(0, N, TILE_N):
        n = start + tl.arange(0, TILE_N)
        x = tl.load(x_ptr + pid * N + n, mask=n < N, other=-float("inf"))
        new = tl.maximum(m, x)
        # Lanes that have seen nothing yet stay empty.
        z = tl.where(new == float("-inf"), z, z * tl.exp(m - new) + tl.exp(x - new))
        m = new
    total = tl.max(m, 0)
    lse = total + tl.log(tl.sum(z * tl.exp(m - total), 0))
    for start in range(0, N, TILE_N):
        n = start + tl.arange(0, TILE_N)
        x = tl.load(x_ptr + pid * N + n, mask=n < N)
        tl.store(y_ptr + pid * N + n, x - lse, mask=n < N)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        log_softmax[x.shape[0],](x, y, x.shape[1], TILE_N=64)
        return y
