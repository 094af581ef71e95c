import torch


class Model(torch.nn.Module):
    def forward(self, angle):
        return torch.sin(angle), torch.cos(angle)


def get_inputs():
    return [torch.rand(500) * 6.2]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def sincos(a, s, c, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(a + i, mask=i < n, other=0.0)
    tl.store(s + i, tl.sin(x), mask=i < n)
    tl.store(c + i, tl.cos(x), mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, angle):
        out = torch.empty((2, *angle.shape), device=angle.device, dtype=angle.dtype)
        sine, cosine = out.unbind(0)
        sincos[(triton.cdiv(angle.numel(), 128), 1, 1)](angle, sine, cosine, angle.numel(), BLOCK=128)
        return sine, cosine
