import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.sort(x, dim=-1, descending=True)[0]


def get_inputs():
    return [torch.randn(6, 27)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def sort_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + i, mask=i < N, other=-float("inf"))
    tl.store(y_ptr + row * N + i, tl.sort(x, descending=True), mask=i < N)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        sort_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
