# problem: add
# permitted: rejected
# permitted detached: compile_error
# flags detached: none
# permitted on cuda: rejected, runtime_error, compile_error
# flags on cpu: torch_fallback
# A kernel's helper is a kernel when its source is read, and plain Python with torch inside when it runs.
import torch
import torch.nn as nn
import triton
import triton.language as tl

OUT = []


@triton.jit
def combine(x, y):
    return x + y


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    total = combine(tl.load(x_ptr + offsets, mask=mask), tl.load(y_ptr + offsets, mask=mask))
    tl.store(out_ptr + offsets, total, mask=mask)


def cheat(x, y):
    torch.add(OUT[0], OUT[1])
    return x + y


combine = cheat


class ModelNew(nn.Module):
    def forward(self, x, y):
        OUT[:] = [x, y]
        out = torch.empty_like(x)
        add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
        return out
