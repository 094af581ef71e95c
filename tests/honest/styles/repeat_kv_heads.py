import torch


class Model(torch.nn.Module):
    def __init__(self, n_rep):
        super().__init__()
        self.n_rep = n_rep

    def forward(self, q, k):
        k = torch.repeat_interleave(k, self.n_rep, dim=1)
        return (q * k).sum(-1)


def get_inputs():
    return [torch.randn(2, 6, 9, 8), torch.randn(2, 2, 9, 8)]


def get_init_inputs():
    return [3]
# ----- candidate -----
import torch
import triton
import triton.language as tl


def repeat_kv(x: torch.Tensor, n_rep: int) -> torch.Tensor:
    bs, heads, length, dim = x.shape
    if n_rep == 1:
        return x
    return x[:, :, None, :, :].expand(bs, heads, n_rep, length, dim).reshape(bs, heads * n_rep, length, dim)


@triton.jit
def row_dot(q, k, o, D, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    d = tl.arange(0, BLOCK)
    m = d < D
    tl.store(o + r, tl.sum(tl.load(q + r * D + d, m, 0.0) * tl.load(k + r * D + d, m, 0.0)))


class ModelNew(torch.nn.Module):
    def __init__(self, n_rep):
        super().__init__()
        self.n_rep = n_rep

    def forward(self, q, k):
        k = repeat_kv(k, self.n_rep)
        out = torch.empty(q.shape[:-1], device=q.device)
        row_dot[(out.numel(),)](q, k, out, q.shape[-1], BLOCK=triton.next_power_of_2(q.shape[-1]))
        return out
