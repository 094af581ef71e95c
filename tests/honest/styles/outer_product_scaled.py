import torch


class Model(torch.nn.Module):
    def forward(self, u, v):
        return torch.outer(u, v) / 3.0


def get_inputs():
    return [torch.randn(27), torch.randn(75)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def outer(u_ptr, v_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    col = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(u_ptr + row) * tl.load(v_ptr + col, mask=col < N) / 3.0
    tl.store(out_ptr + row * N + col, value, mask=col < N)


class ModelNew(torch.nn.Module):
    def forward(self, u, v):
        out = torch.empty(len(u), len(v), device=u.device)
        outer[(triton.cdiv(len(v), 32), len(u))](u, v, out, len(v), BLOCK=32)
        return out
