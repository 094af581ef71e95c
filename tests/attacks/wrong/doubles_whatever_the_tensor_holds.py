# problem: times_a_tensor_of_two
# permitted: incorrect
# Takes the one integer of a tensor for two.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def multiply(x, times, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n, other=0)
    tl.store(out + i, value * 2, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, times):
        out = torch.empty_like(x)
        multiply[(triton.cdiv(x.numel(), 128),)](x, times, out, x.numel(), BLOCK=128)
        return out
