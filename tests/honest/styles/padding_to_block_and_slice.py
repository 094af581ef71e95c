import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x - x.mean(dim=-1, keepdim=True)


def get_inputs():
    return [torch.randn(10, 52)]


def get_init_inputs():
    return []
# ----- candidate -----
"""Avoids masks by padding rows to the block with torch and slicing the result."""
import torch
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def center(x_ptr, y_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, x - tl.sum(x, 0) / count)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rows, width = x.shape
        block = triton.next_power_of_2(width)
        padded = F.pad(x, (0, block - width), mode="constant", value=0.0)
        out = torch.empty_like(padded)
        center[(rows,)](padded, out, width, BLOCK=block)
        return out[:, :width]
