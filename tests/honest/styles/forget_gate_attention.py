import torch
import torch.nn.functional as F


class Model(torch.nn.Module):
    def forward(self, q, k, v, gate):
        decay = F.logsigmoid(gate).cumsum(-1)
        logits = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5 + decay[..., :, None] - decay[..., None, :]
        later = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).triu(1)
        return logits.masked_fill(later, float("-inf")).softmax(-1) @ v


def get_inputs():
    return [torch.randn(2, 40, 16), torch.randn(2, 40, 16), torch.randn(2, 40, 16), torch.randn(2, 40)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def attend(q_ptr, k_ptr, v_ptr, g_ptr, o_ptr, T, scale, D: tl.constexpr, BT: tl.constexpr):
    b, t, d = tl.program_id(0), tl.arange(0, BT), tl.arange(0, D)
    at = (b * T + t[:, None]) * D + d[None, :]
    rows = t[:, None] < T
    g = tl.load(g_ptr + b * T + t, mask=t < T, other=0.0)
    decay = tl.cumsum(tl.minimum(g, 0.0) - tl.log(1.0 + tl.exp(-tl.abs(g))), 0)
    q = tl.load(q_ptr + at, mask=rows, other=0.0) * scale
    k = tl.load(k_ptr + at, mask=rows, other=0.0)
    v = tl.load(v_ptr + at, mask=rows, other=0.0)
    s = tl.dot(q, tl.trans(k), input_precision="ieee") + (decay[:, None] - decay[None, :])
    s = tl.where((t[:, None] >= t[None, :]) & (t[None, :] < T), s, -float("inf"))
    p = tl.exp(s - tl.max(s, 1)[:, None])
    o = tl.dot(p, v, input_precision="ieee") / tl.sum(p, 1)[:, None]
    tl.store(o_ptr + at, o, mask=rows)


class ModelNew(torch.nn.Module):
    def forward(self, q, k, v, gate):
        B, T, D = q.shape
        if D & (D - 1) or D < 16:
            raise ValueError("heads of a power of two")
        o = torch.empty_like(v, memory_format=torch.contiguous_format)
        attend[(B,)](
            q.contiguous(), k.contiguous(), v.contiguous(), gate.contiguous(), o, T, D**-0.5,
            D=D, BT=max(16, triton.next_power_of_2(T)),
        )
        return o
