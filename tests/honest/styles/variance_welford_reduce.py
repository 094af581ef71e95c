import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.var(x, dim=-1), torch.mean(x, dim=-1)


def get_inputs():
    return [torch.randn(18, 100)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def welford_combine(mean_1, m2_1, count_1, mean_2, m2_2, count_2):
    delta = mean_2 - mean_1
    count = count_1 + count_2
    ratio = tl.where(count == 0.0, 0.0, count_2 / tl.maximum(count, 1.0))
    return mean_1 + delta * ratio, m2_1 + m2_2 + delta * delta * count_1 * ratio, count


@triton.jit
def var_mean(x_ptr, var_ptr, mean_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    live = i < N
    x = tl.load(x_ptr + row * N + i, mask=live, other=0.0)
    mean, m2, count = tl.reduce((x, tl.zeros_like(x), live.to(tl.float32)), 0, welford_combine)
    tl.store(mean_ptr + row, mean)
    tl.store(var_ptr + row, m2 / (count - 1))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rows, N = x.shape
        var, mean = (torch.empty(rows, device=x.device, dtype=x.dtype) for _ in range(2))
        var_mean[(rows,)](x, var, mean, N, BLOCK=triton.next_power_of_2(N))
        return var, mean
