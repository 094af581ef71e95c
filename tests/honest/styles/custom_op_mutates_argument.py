import torch


class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.addcmul(x, x, y, value=0.5)


def get_inputs():
    return [torch.randn(19, 23), torch.randn(19, 23)]


def get_init_inputs():
    return []
# ----- candidate -----
"""Serving style: operators write to an output that the caller hands over, registered in a library of fragments."""
import torch
import triton
import triton.language as tl
from torch.library import Library, custom_op

fragment = Library("serving_kernels", "FRAGMENT")


@triton.jit
def _addcmul(x, y, o, value, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n)
    tl.store(o + i, a + value * a * tl.load(y + i, mask=i < n), mask=i < n)


@custom_op("serving_kernels::addcmul_out", mutates_args={"out"})
def addcmul_out(out: torch.Tensor, x: torch.Tensor, y: torch.Tensor, value: float) -> None:
    _addcmul[(triton.cdiv(x.numel(), 128),)](x, y, out, value, x.numel(), BLOCK=128)


def direct_register(name, schema, fn, key="CUDA"):
    fragment.define(name + schema)
    fragment.impl(name, fn, dispatch_key=key)


def addcmul(x, y, value):
    out = torch.empty_like(x)
    torch.ops.serving_kernels.addcmul_out(out, x, y, value)
    return out


direct_register("addcmul", "(Tensor x, Tensor y, float value) -> Tensor", addcmul)


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        return torch.ops.serving_kernels.addcmul(x, y, 0.5)
