import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.avg_pool1d(x, 4, 2), x.mean(dim=2)


def get_inputs():
    return [torch.randn(3, 5, 31)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def pools(x, windows, means, L, O, BL: tl.constexpr):
    row = tl.program_id(0)
    o = tl.arange(0, BL)
    acc = tl.zeros((BL,), tl.float32)
    for k in tl.static_range(4):
        acc += tl.load(x + row * L + 2 * o + k, mask=o < O, other=0.0)
    tl.store(windows + row * O + o, acc * 0.25, mask=o < O)
    tl.store(means + row, tl.sum(tl.load(x + row * L + o, mask=o < L, other=0.0)) / L)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        N, C, L = x.shape
        O = (L - 4) // 2 + 1
        windows, means = x.new_empty(N, C, O), x.new_empty(N, C)
        pools[(N * C,)](x, windows, means, L, O, BL=triton.next_power_of_2(L))
        return windows, means
