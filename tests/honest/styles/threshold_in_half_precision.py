import torch


class Model(torch.nn.Module):
    def forward(self, x):
        above = x > 0.3
        return torch.where(above, x, 0.0), above


def get_inputs():
    return [torch.rand(64, 513, dtype=torch.float16)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def keep_above(x_ptr, y_ptr, above_ptr, n, threshold, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n).to(tl.float32)
    tl.store(y_ptr + i, tl.where(x > threshold, x, 0.0), mask=i < n)
    tl.store(above_ptr + i, x > threshold, mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y, above = torch.empty_like(x), torch.empty_like(x, dtype=torch.bool)
        keep_above[(triton.cdiv(x.numel(), 1024),)](x, y, above, x.numel(), 0.3, 1024)
        return y, above
