import torch
import torch.nn as nn
class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)
def get_inputs():
    return [torch.randn(10, 300)]
def get_init_inputs():
    return []
# ----- candidate -----
from typing import NamedTuple

import torch
import torch.nn as nn
import triton
import triton.language as tl


class OnlineState(NamedTuple):
    running_max: tl.tensor
    denom: tl.tensor


@triton.jit
def update(state, x):
    new_max = tl.maximum(state.running_max, tl.max(x, axis=0))
    denom = state.denom * tl.exp(state.running_max - new_max) + tl.sum(tl.exp(x - new_max), axis=0)
    return OnlineState(running_max=new_max, denom=denom)


@triton.jit
def softmax_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    state = OnlineState(tl.full((), float("-inf"), tl.float32), tl.full((), 0.0, tl.float32))
    for start in range(0, N, BLOCK):
        x = tl.load(x_ptr + row * N + start + cols, mask=start + cols < N, other=float("-inf"))
        state = update(state, x)
    for start in range(0, N, BLOCK):
        m = start + cols < N
        x = tl.load(x_ptr + row * N + start + cols, mask=m, other=float("-inf"))
        tl.store(y_ptr + row * N + start + cols, tl.exp(x - state.running_max) / state.denom, mask=m)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=128)
        return y
