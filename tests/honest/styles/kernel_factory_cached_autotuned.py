import torch
import torch.nn as nn
class Model(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind
    def forward(self, x, bias):
        y = x + bias
        return torch.sigmoid(y) * y if self.kind == "silu" else torch.relu(y)
def get_inputs():
    return [torch.randn(9, 70), torch.randn(70)]
def get_init_inputs():
    return ["silu"]
# ----- candidate -----
import functools

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _silu(v):
    return v * tl.sigmoid(v)


@triton.jit
def _relu(v):
    return tl.maximum(v, 0.0)


_ACTS = {"silu": _silu, "relu": _relu}


@functools.lru_cache(maxsize=None)
def bias_act_kernel(act_name: str):
    act = _ACTS[act_name]

    @triton.autotune(
        configs=[triton.Config({"BN": 64}, num_warps=2), triton.Config({"BN": 128}, num_warps=4)],
        key=["N"],
    )
    @triton.jit
    def kernel(x, b, y, M, N, sx, sy, BN: tl.constexpr):
        row = tl.program_id(0)
        cols = tl.program_id(1) * BN + tl.arange(0, BN)
        m = cols < N
        v = tl.load(x + row * sx + cols, mask=m, other=0.0) + tl.load(b + cols, mask=m, other=0.0)
        tl.store(y + row * sy + cols, act(v), mask=m)

    return kernel


class ModelNew(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def forward(self, x, bias):
        M, N = x.shape
        y = torch.empty((M, N), device=x.device, dtype=x.dtype)
        k = bias_act_kernel(self.kind)
        k[lambda META: (M, triton.cdiv(N, META["BN"]))](x, bias, y, M, N, x.stride(0), y.stride(0))
        return y
