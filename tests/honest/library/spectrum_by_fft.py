import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        spectrum = torch.fft.rfft(x, norm="ortho")
        return spectrum.real**2 + spectrum.imag**2


def get_inputs():
    return [torch.randn(5, 32)]


def get_init_inputs():
    return []


# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def power_kernel(pairs_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real = tl.load(pairs_ptr + 2 * i, mask=i < n)
    imaginary = tl.load(pairs_ptr + 2 * i + 1, mask=i < n)
    tl.store(out_ptr + i, real * real + imaginary * imaginary, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        pairs = torch.view_as_real(torch.fft.rfft(x, norm="ortho").contiguous())
        out = x.new_empty(pairs.shape[:-1])
        power_kernel[(triton.cdiv(out.numel(), 64),)](pairs, out, out.numel(), BLOCK=64)
        return out
