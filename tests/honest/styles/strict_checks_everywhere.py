import torch


class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.maximum(x, y) - torch.minimum(x, y)


def get_inputs():
    return [torch.randn(11, 31), torch.randn(11, 31)]


def get_init_inputs():
    return []
# ----- candidate -----
"""Production style: every precondition is checked, and a typed error says which one failed."""
import torch
import triton
import triton.language as tl

SUPPORTED = (torch.float16, torch.bfloat16, torch.float32)


class KernelInputError(ValueError):
    pass


@triton.jit
def _abs_diff(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK >= 32, "BLOCK is too small")
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + i, mask=i < n), tl.load(y_ptr + i, mask=i < n)
    tl.store(o_ptr + i, tl.maximum(x, y) - tl.minimum(x, y), mask=i < n)


def abs_diff(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for name, t in (("x", x), ("y", y)):
        if not isinstance(t, torch.Tensor):
            raise KernelInputError(f"{name} is no tensor")
        if t.device.type != "cuda":
            raise KernelInputError(f"{name} must live on a GPU, not on {t.device}")
        if t.dtype not in SUPPORTED:
            raise KernelInputError(f"{name} has dtype {t.dtype}")
        if t.layout != torch.strided or not t.is_contiguous():
            raise KernelInputError(f"{name} must be contiguous")
    if x.shape != y.shape or x.device != y.device:
        raise KernelInputError(f"{x.shape} on {x.device} against {y.shape} on {y.device}")
    if not torch.cuda.is_available():
        raise RuntimeError("no GPU")
    out = torch.empty(x.size(), dtype=torch.promote_types(x.dtype, y.dtype), device=x.device)
    if out.numel() == 0:
        return out
    with torch.cuda.device_of(x):
        _abs_diff[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), BLOCK=128)
    return out


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        return abs_diff(x, y)
