import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, predictions, targets):
        return torch.mean((predictions - targets) ** 2)


def get_inputs():
    return [torch.randn(31, 45), torch.randn(31, 45)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def partial_kernel(p_ptr, t_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    d = tl.load(p_ptr + i, mask=i < n, other=0.0) - tl.load(t_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + pid, tl.sum(d * d))


@triton.jit
def finish_kernel(part_ptr, out_ptr, parts, n, BLOCK: tl.constexpr):
    acc = tl.zeros([BLOCK], tl.float32)
    for s in range(0, parts, BLOCK):
        i = s + tl.arange(0, BLOCK)
        acc += tl.load(part_ptr + i, mask=i < parts, other=0.0)
    tl.store(out_ptr, tl.sum(acc) / n)


class ModelNew(nn.Module):
    def forward(self, predictions, targets):
        n = predictions.numel()
        parts = triton.cdiv(n, 256)
        partial = torch.empty(parts, device=predictions.device)
        out = torch.empty((), device=predictions.device)
        partial_kernel[(parts,)](predictions, targets, partial, n, BLOCK=256)
        finish_kernel[(1,)](partial, out, parts, n, BLOCK=64)
        return out
