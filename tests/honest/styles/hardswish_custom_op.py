import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.hardswish(x) - 0.5


def get_inputs():
    return [torch.randn(1200) * 4]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def hardswish_shift(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    pos = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = pos < n
    x = tl.load(x_ptr + pos, mask=live, other=0.0)
    gate = tl.minimum(tl.maximum(x + 3.0, 0.0), 6.0) / 6.0
    tl.store(y_ptr + pos, x * gate - 0.5, mask=live)


@torch.library.custom_op("kernels::hardswish_shift", mutates_args=(), device_types="cuda")
def hardswish_shift_op(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    hardswish_shift[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y


@hardswish_shift_op.register_fake
def _(x):
    return torch.empty_like(x)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return hardswish_shift_op(x.contiguous())
