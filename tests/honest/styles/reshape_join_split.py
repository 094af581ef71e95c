import torch


class Model(torch.nn.Module):
    def forward(self, x):
        even, odd = x[:, 0::2], x[:, 1::2]
        return torch.stack([-odd, even], dim=-1).flatten(1)


def get_inputs():
    return [torch.randn(7, 32)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def rotate_pairs(x, y, N, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + r * N + i, mask=i < N, other=0.0)
    even, odd = tl.split(tl.reshape(v, (BLOCK // 2, 2)))
    tl.store(y + r * N + i, tl.reshape(tl.join(-odd, even), (BLOCK,)), mask=i < N)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        rotate_pairs[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
