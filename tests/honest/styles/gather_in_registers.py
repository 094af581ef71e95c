import torch


class Model(torch.nn.Module):
    def forward(self, x):
        # The matrix of the Hadamard transform of 8 points.
        h = torch.tensor([[1.0, 1.0], [1.0, -1.0]], device=x.device)
        m = torch.kron(torch.kron(h, h), h)
        return x @ m


def get_inputs():
    return [torch.randn(33, 8)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def hadamard8(x, y, ROWS: tl.constexpr, n):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    c = tl.arange(0, 8)[None, :]
    v = tl.load(x + r * 8 + c, mask=r < n, other=0.0)
    for bit in tl.static_range(3):
        partner = tl.broadcast_to(c ^ (1 << bit), (ROWS, 8))
        other = tl.gather(v, partner, 1)
        v = tl.where((c & (1 << bit)) == 0, v + other, other - v)
    tl.store(y + r * 8 + c, v, mask=r < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        hadamard8[(triton.cdiv(x.shape[0], 16),)](x, y, 16, x.shape[0])
        return y
