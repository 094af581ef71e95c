import torch


class Model(torch.nn.Module):
    def forward(self, x):
        grid = torch.linspace(-1, 1, x.shape[1], device=x.device)
        return x * grid + torch.eye(x.shape[0], x.shape[1], device=x.device)


def get_inputs():
    return [torch.randn(12, 29)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def fma(x, g, e, y, N, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    m = i < N
    tl.store(y + r * N + i, tl.load(x + r * N + i, m) * tl.load(g + i, m) + tl.load(e + r * N + i, m), m)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        M, N = x.shape
        ramp = torch.linspace(-1, 1, N, device=x.device, dtype=x.dtype)
        eye = torch.zeros(M, N, device=x.device)
        eye.diagonal().fill_(1.0)
        y = torch.empty_like(x)
        fma[(M,)](x, ramp, eye, y, N, BLOCK=triton.next_power_of_2(N))
        return y
