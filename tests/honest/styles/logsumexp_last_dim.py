import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.logsumexp(x, dim=(1, 2))


def get_inputs():
    return [torch.randn(14, 6, 9)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def lse_kernel(x_ptr, out_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    v = tl.load(x_ptr + r * N + cols, cols < N, -float("inf"))
    top = tl.max(v)
    tl.store(out_ptr + r, tl.log2(tl.sum(tl.exp2((v - top) * 1.4426950408889634))) * 0.6931471805599453 + top)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        flat = x.flatten(1)
        out = torch.empty(flat.shape[0], device=flat.device)
        lse_kernel[(flat.shape[0],)](flat, out, flat.shape[1], triton.next_power_of_2(flat.shape[1]))
        return out
