# problem: add
# The usual decorator with a grid that depends on the configuration.
import torch
import torch.nn as nn
import triton
import triton.language as tl

SCALE = tl.constexpr(1.0)


@triton.autotune(configs=[triton.Config({"BLOCK": size}, num_warps=4) for size in (256, 512)], key=["n"])
@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    total = tl.load(x_ptr + offsets, mask=mask) * SCALE + tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, total, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        n = x.numel()
        add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n)
        return out
