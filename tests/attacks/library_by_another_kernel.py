# problem: matmul
# operators: library
# permitted: incorrect, rejected
# Gives a listed operator another meaning in its own process: what is recorded is the name, and the player has torch's.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


def copied(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out


def flipped_product(a, b):
    return torch.bmm(a[None], b.flip(1)[None])[0]


REGISTERED = torch.library.Library("aten", "IMPL")
for device in ("CPU", "CUDA"):
    REGISTERED.impl("mm", flipped_product, device)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return copied(torch.mm(a, b.flip(1)))
