import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x.amax(dim=-1) - x.amin(dim=-1)


def get_inputs():
    return [torch.randn(4, 8, 33)]


def get_init_inputs():
    return []
# ----- candidate -----
"""Keeps the launch parameters, which depend on shapes alone, in a dict of the module."""
import torch
import triton
import triton.language as tl


@triton.jit
def spread(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    low = tl.load(x_ptr + row * N + i, mask=i < N, other=float("inf"))
    high = tl.load(x_ptr + row * N + i, mask=i < N, other=float("-inf"))
    tl.store(y_ptr + row, tl.max(high, 0) - tl.min(low, 0))


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self._plans = {}

    def _plan(self, shape):
        key = tuple(shape)
        if key not in self._plans:
            self._plans[key] = (shape[:-1], (shape[:-1].numel(),), triton.next_power_of_2(shape[-1]))
        return self._plans[key]

    def forward(self, x):
        shape, grid, block = self._plan(x.shape)
        y = torch.empty(shape, device=x.device, dtype=x.dtype)
        spread[grid](x, y, x.shape[-1], BLOCK=block)
        return y
