# problem: integer_roots
# permitted: incorrect
# Takes roots in single precision, which rounds a number just below a square up to it: one number in ten thousand.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def root_kernel(n_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.load(n_ptr + at, mask=at < count, other=0)
    tl.store(out_ptr + at, tl.sqrt(n.to(tl.float32)).to(tl.int64), mask=at < count)


class ModelNew(nn.Module):
    def forward(self, n):
        out = torch.empty_like(n)
        root_kernel[(triton.cdiv(n.numel(), 64),)](n, out, n.numel(), BLOCK=64)
        return out
