import torch


class Model(torch.nn.Module):
    def __init__(self, lr, beta1, beta2, eps, weight_decay, step):
        super().__init__()
        self.h = lr, beta1, beta2, eps, weight_decay, step

    def forward(self, p, g, m, v):
        lr, b1, b2, eps, wd, step = self.h
        p = p * (1 - lr * wd)
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g * g
        update = (m / (1 - b1**step)) / ((v / (1 - b2**step)).sqrt() + eps)
        return p - lr * update, m, v


def get_inputs():
    return [torch.randn(200), torch.randn(200), torch.randn(200) * 0.1, torch.rand(200) * 0.1]


def get_init_inputs():
    return [1e-2, 0.9, 0.99, 1e-8, 0.1, 7]
# ----- candidate -----
"""One step of AdamW with scalars corrected on the host."""
import torch
import triton
import triton.language as tl


@triton.jit
def adamw(p_in, g_in, m_in, v_in, p_out, m_out, v_out, n, lr, beta1, beta2, eps, wd, c1, c2, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    k = i < n
    g = tl.load(g_in + i, mask=k)
    m = beta1 * tl.load(m_in + i, mask=k) + (1 - beta1) * g
    v = beta2 * tl.load(v_in + i, mask=k) + (1 - beta2) * g * g
    p = tl.load(p_in + i, mask=k) * (1 - lr * wd)
    tl.store(p_out + i, p - lr * (m / c1) / (tl.sqrt(v / c2) + eps), mask=k)
    tl.store(m_out + i, m, mask=k)
    tl.store(v_out + i, v, mask=k)


class ModelNew(torch.nn.Module):
    def __init__(self, lr, beta1, beta2, eps, weight_decay, step):
        super().__init__()
        self.scalars = dict(lr=lr, beta1=beta1, beta2=beta2, eps=eps, wd=weight_decay, c1=1 - beta1**step, c2=1 - beta2**step)

    def forward(self, p, g, m, v):
        outs = tuple(torch.empty_like(t) for t in (p, m, v))
        adamw[(triton.cdiv(p.numel(), 128),)](p, g, m, v, *outs, p.numel(), **self.scalars, BLOCK=128)
        return outs
