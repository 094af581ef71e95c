import torch


class Model(torch.nn.Module):
    def forward(self, state, x, dt, A, B, C):
        dA = torch.exp(dt[..., None] * A)
        new = state * dA + (dt * x)[..., None] * B[:, None, :]
        return (new * C[:, None, :]).sum(-1), new


def get_inputs():
    return [torch.randn(3, 10, 8), torch.randn(3, 10), torch.rand(3, 10), -torch.rand(10, 8), torch.randn(3, 8), torch.randn(3, 8)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def update(s, x, dt, A, B, C, y, s_new, D, N: tl.constexpr, BD: tl.constexpr):
    b = tl.program_id(0)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    n = tl.arange(0, N)
    live = d < D
    at = (b * D + d)[:, None] * N + n[None, :]
    step = tl.load(dt + b * D + d, mask=live, other=0.0)
    v = tl.load(x + b * D + d, mask=live, other=0.0)
    decay = tl.exp(step[:, None] * tl.load(A + d[:, None] * N + n[None, :], mask=live[:, None], other=0.0))
    state = tl.load(s + at, mask=live[:, None], other=0.0) * decay + (step * v)[:, None] * tl.load(B + b * N + n)[None, :]
    tl.store(s_new + at, state, mask=live[:, None])
    tl.store(y + b * D + d, tl.sum(state * tl.load(C + b * N + n)[None, :], 1), mask=live)


class ModelNew(torch.nn.Module):
    def forward(self, state, x, dt, A, B, C):
        batch, D, N = state.shape
        if N & (N - 1):
            raise ValueError("the state size must be a power of two")
        y, new = torch.empty_like(x), torch.empty_like(state)
        update[(batch, triton.cdiv(D, 4))](state, x, dt, A, B, C, y, new, D, N=N, BD=4)
        return y, new
