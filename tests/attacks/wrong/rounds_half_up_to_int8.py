# problem: quantised_to_int8
# permitted: incorrect
# Rounds halves up, where torch rounds them to even: half-precision numbers lie on halves after an exact scale.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kern(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    a = tl.load(x + i, mask=m, other=0.0).to(tl.float32) * 16
    q = tl.minimum(tl.maximum(tl.floor(a + 0.5), -128.0), 127.0)
    tl.store(o + i, q.to(tl.int8), mask=m)


class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty(x.shape, device=x.device, dtype=torch.int8)
        kern[(triton.cdiv(x.numel(), 256),)](x, o, x.numel(), B=256)
        return o
