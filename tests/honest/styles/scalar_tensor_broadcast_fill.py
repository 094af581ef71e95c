import torch


class Model(torch.nn.Module):
    def forward(self, x):
        bias = torch.zeros(x.shape[1], device=x.device)
        bias[0] = 1.5
        bias[-1] = -2.0
        return torch.exp(x * 0.1) + bias


def get_inputs():
    return [torch.randn(11, 27)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def exp_bias(x, b, y, N, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    m = i < N
    tl.store(y + r * N + i, tl.exp(tl.load(x + r * N + i, m, 0.0) * 0.1) + tl.load(b + i, m, 0.0), m)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        bias = torch.zeros(x.shape[1], device=x.device)
        bias[0] = 1.5
        bias[-1] = -2.0
        y = torch.empty_like(x)
        exp_bias[(x.shape[0],)](x, bias, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
