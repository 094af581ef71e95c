import torch
import torch.nn as nn
class Model(nn.Module):
    def forward(self, x):
        return torch.exp(x), torch.sigmoid(x), torch.erf(x)
def get_inputs():
    return [torch.randn(7, 33)]
def get_init_inputs():
    return []
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


def unary(fn):
    @triton.jit
    def unary_kernel(src, dst, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        ok = at < n
        tl.store(dst + at, fn(tl.load(src + at, mask=ok)), mask=ok)

    def op(t):
        t = t.contiguous()
        r = torch.empty_like(t)
        unary_kernel[(triton.cdiv(t.numel(), 128),)](t, r, t.numel(), BLOCK=128)
        return r

    return op


exp, sigmoid, erf = map(unary, (tl.exp, tl.sigmoid, libdevice.erf))


class ModelNew(nn.Module):
    def forward(self, x):
        return exp(x), sigmoid(x), erf(x)
