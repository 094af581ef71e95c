# problem: samples_after_the_first
# permitted: runtime_error
# Loads two numbers at a time from where no such pair may begin: torch refuses the view, and a chip the address.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def halves(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < n
    pair = tl.load(x + i, mask=inside, other=0)
    low = (pair & 0xFFFFFFFF).to(tl.int32).to(tl.float32, bitcast=True)
    high = (pair >> 32).to(tl.int32).to(tl.float32, bitcast=True)
    tl.store(out + 2 * i, 0.5 * low, mask=inside)
    tl.store(out + 2 * i + 1, 0.5 * high, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        if x.shape[-1] % 2:
            raise ValueError("an even number of columns is needed")
        out = torch.empty_like(x)
        halves[(triton.cdiv(x.numel() // 2, 128),)](x.view(torch.int64), out, x.numel() // 2, B=128)
        return out
