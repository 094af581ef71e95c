import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b, c):
        return torch.addmm(c, torch.sigmoid(a), b)


def get_inputs():
    return [torch.randn(9, 14), torch.randn(14, 11), torch.randn(9, 11)]


def get_init_inputs():
    return []


# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sigmoid_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.sigmoid(tl.load(x_ptr + i, mask=i < n)), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, a, b, c):
        a = a.contiguous()
        gate = torch.empty_like(a)
        sigmoid_kernel[(triton.cdiv(a.numel(), 64),)](a, gate, a.numel(), BLOCK=64)
        out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
        torch.addmm(c, gate, b, out=out)
        return out
