# problem: add
# device: cpu
# permitted: rejected, incorrect, runtime_error
# flags: torch_fallback
# permitted detached: correct
# flags detached: none
# harmless: where host code is detached no interpreter of its process runs a kernel; the kernel is honest
# Replaces the interpreter's launch, so that every kernel computes with torch instead.
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.runtime import interpreter


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def add(x, y):
    out = torch.empty_like(x)
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
    return out


interpreter.GridExecutor.__call__ = lambda self, x, y, out, n, **kwargs: out.copy_(torch.add(x, y))


class ModelNew(nn.Module):
    def forward(self, x, y):
        return add(x, y)
