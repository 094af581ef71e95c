# problem: relu
# Constants with a power and a shift; torch.Tensor and strings as annotations.
import torch
import torch.nn as nn
import triton
import triton.language as tl

BLOCK_SIZE = 1 << 8
FLOOR = tl.constexpr(2**4 - 16)


@triton.jit
def relu_kernel(x_ptr: torch.Tensor, out_ptr: torch.Tensor, n: int, BLOCK: "tl.constexpr") -> None:
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, tl.maximum(x, FLOOR), mask=offsets < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), BLOCK_SIZE),)](x, out, x.numel(), BLOCK=BLOCK_SIZE)
        return out
