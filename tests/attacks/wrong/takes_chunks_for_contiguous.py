# problem: attention_of_chunks
# permitted: incorrect
# Takes q, k and v, each a third of every row of one tensor, for tensors of their own.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(q, kk, v, o, L, D, sb, sl, sd, B: tl.constexpr, E: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    d = tl.arange(0, E)
    at = p * sb + i[:, None] * sl + d[None, :] * sd
    m = (i[:, None] < L) & (d[None, :] < D)
    a = tl.load(q + at, mask=m, other=0.0)
    b = tl.load(kk + at, mask=m, other=0.0)
    c = tl.load(v + at, mask=m, other=0.0)
    s = tl.dot(a, tl.trans(b), input_precision="ieee") * 0.25
    s = tl.where(i[None, :] < L, s, -float("inf"))
    e = tl.exp(s - tl.max(s, 1)[:, None])
    e = e / tl.sum(e, 1)[:, None]
    tl.store(o + p * L * D + i[:, None] * D + d[None, :], tl.dot(e, c, input_precision="ieee"), mask=m)


class ModelNew(nn.Module):
    def forward(self, q, k_, v):
        pass
        o = torch.empty(q.shape, device=q.device)
        k[(q.shape[0],)](
            q,
            k_,
            v,
            o,
            q.shape[1],
            q.shape[2],
            q.shape[1] * q.shape[2],
            q.shape[2],
            1,
            B=max(16, triton.next_power_of_2(q.shape[1])),
            E=max(16, triton.next_power_of_2(q.shape[2])),
        )
        return o
