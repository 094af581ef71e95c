import torch


class Model(torch.nn.Module):
    def forward(self, x, keep):
        return torch.where(keep, x, -x)


def get_inputs():
    return [torch.randn(20, 33), torch.rand(20, 33) > 0.4]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def flip_sign(x_ptr, keep_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    keep = tl.load(keep_ptr + i, mask=i < n, other=0).to(tl.int1)
    tl.store(y_ptr + i, tl.where(keep, x, -x), mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x, keep):
        y = torch.empty_like(x)
        flip_sign[(triton.cdiv(x.numel(), 256),)](x, keep.view(torch.int8), y, x.numel(), 256)
        return y
