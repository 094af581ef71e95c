import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return (x * 3).clamp(min=-1)


def get_inputs():
    return [torch.randn(20, 64)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def tripled(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.extra.cuda.gdc_wait()
    v = tl.load(x + i, mask=i < n)
    tl.extra.cuda.gdc_launch_dependents()
    tl.store(o + i, v * 3, mask=i < n)


@triton.jit
def at_least(x, o, n, least, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.extra.cuda.gdc_wait()
    tl.store(o + i, tl.maximum(tl.load(x + i, mask=i < n), least), mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        t, o, n = torch.empty_like(x), torch.empty_like(x), x.numel()
        grid = (triton.cdiv(n, 128),)
        tripled[grid](x, t, n, B=128, launch_pdl=True, launch_cooperative_grid=False)
        at_least[grid](t, o, n, -1.0, B=128, launch_pdl=True, sanitize_overflow=False)
        return o
