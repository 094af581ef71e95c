import torch


class Model(torch.nn.Module):
    def forward(self, scores, signs):
        margins = torch.clamp(1 - scores * signs, min=0)
        return {"margins": margins, "loss": margins.mean()}


def get_inputs():
    return [torch.randn(350), torch.randint(0, 2, (350,)).float() * 2 - 1]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def hinge(s_ptr, y_ptr, m_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = 1 - tl.load(s_ptr + i, mask=i < n) * tl.load(y_ptr + i, mask=i < n)
    tl.store(m_ptr + i, tl.where(v > 0, v, 0.0), mask=i < n)


@triton.jit
def average(m_ptr, o_ptr, n, BLOCK: tl.constexpr):
    acc = 0.0
    for s in range(0, n, BLOCK):
        i = s + tl.arange(0, BLOCK)
        acc += tl.sum(tl.load(m_ptr + i, mask=i < n, other=0.0))
    tl.store(o_ptr, acc / n)


class ModelNew(torch.nn.Module):
    def forward(self, scores, signs):
        margins = torch.empty_like(scores)
        loss = scores.new_empty(())
        n = scores.numel()
        hinge[(triton.cdiv(n, 128),)](scores, signs, margins, n, BLOCK=128)
        average[(1,)](margins, loss, n, BLOCK=128)
        return dict(margins=margins, loss=loss)
