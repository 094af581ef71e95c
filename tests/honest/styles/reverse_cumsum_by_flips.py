import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.cumsum(x.flip(1), dim=1).flip(1)


def get_inputs():
    return [torch.randn(8, 43)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def cumsum_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + i, mask=i < N, other=0.0)
    tl.store(y_ptr + row * N + i, tl.cumsum(x, axis=0), mask=i < N)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        turned = torch.flip(x, dims=(1,)).contiguous()
        y = torch.empty_like(turned)
        N = x.shape[1]
        cumsum_kernel[(x.shape[0],)](turned, y, N, BLOCK=triton.next_power_of_2(N))
        return y.flip(1)
