import torch
import torch.nn as nn


class Model(nn.Module):
    """A router in half precision: logits are a product, and its rounding makes ties."""

    def __init__(self, width, experts, top):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False).half()
        self.top = top

    def forward(self, x):
        logits = self.gate(x)
        weights, index = torch.topk(torch.softmax(logits.float(), dim=-1), self.top, dim=-1)
        return weights / weights.sum(-1, keepdim=True), index


def get_inputs():
    return [torch.randn(64, 32).half()]


def get_init_inputs():
    return [32, 16, 2]


# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(
    x_ptr,
    g_ptr,
    w_ptr,
    i_ptr,
    WIDTH: tl.constexpr,
    E: tl.constexpr,
    K: tl.constexpr,
    BW: tl.constexpr,
    BE: tl.constexpr,
    KP: tl.constexpr,
):
    row = tl.program_id(0)
    c = tl.arange(0, BW)
    e = tl.arange(0, BE)
    x = tl.load(x_ptr + row * WIDTH + c, mask=c < WIDTH, other=0.0).to(tl.float32)
    g = tl.load(g_ptr + e[:, None] * WIDTH + c[None, :], mask=(e[:, None] < E) & (c[None, :] < WIDTH), other=0.0).to(
        tl.float32
    )
    logits = tl.sum(g * x[None, :], axis=1).to(tl.float16).to(tl.float32)
    logits = tl.where(e < E, logits, -float("inf"))
    p = tl.exp(logits - tl.max(logits, axis=0))
    p = p / tl.sum(p, axis=0)
    p = tl.where(e < E, p, -1.0)
    ks = tl.arange(0, KP)
    best = tl.zeros((KP,), tl.float32)
    where = tl.zeros((KP,), tl.int64)
    for k in tl.static_range(K):
        m = tl.max(p, axis=0)
        at = tl.argmax(p, axis=0)
        best = tl.where(ks == k, m, best)
        where = tl.where(ks == k, at.to(tl.int64), where)
        p = tl.where(e == at, -1.0, p)
    tl.store(w_ptr + row * K + ks, best / tl.sum(best, axis=0), mask=ks < K)
    tl.store(i_ptr + row * K + ks, where, mask=ks < K)


class ModelNew(nn.Module):
    def __init__(self, width, experts, top):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False).half()
        self.top = top

    def forward(self, x):
        x = x.contiguous()
        rows, width = x.shape
        experts = self.gate.weight.shape[0]
        w = torch.empty((rows, self.top), dtype=torch.float32, device=x.device)
        i = torch.empty((rows, self.top), dtype=torch.int64, device=x.device)
        kernel[(rows,)](
            x,
            self.gate.weight,
            w,
            i,
            width,
            experts,
            self.top,
            triton.next_power_of_2(width),
            triton.next_power_of_2(experts),
            triton.next_power_of_2(self.top),
        )
        return w, i
