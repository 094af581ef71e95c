import torch


class Model(torch.nn.Module):
    def forward(self, x):
        shifted = torch.cat((torch.zeros_like(x[:, :1]), x), dim=1)[:, :-1]
        return torch.cumsum(shifted, dim=1)


def get_inputs():
    return [torch.randn(6, 61)]


def get_init_inputs():
    return []
# ----- candidate -----
"""Pads with torch, which only moves, and scans in a kernel."""
import torch
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def cumsum_kernel(x_ptr, y_ptr, sx, sy, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * sx + i, mask=i < N, other=0.0)
    tl.store(y_ptr + row * sy + i, tl.cumsum(x, axis=0), mask=i < N)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        padded = F.pad(x, (1, 0))[:, :-1]
        y = torch.empty_like(x)
        cumsum_kernel[(x.shape[0],)](padded, y, padded.stride(0), y.stride(0), x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
