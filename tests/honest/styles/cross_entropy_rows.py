import torch
import torch.nn.functional as F


class Model(torch.nn.Module):
    def forward(self, logits, labels):
        return F.cross_entropy(logits, labels)


def get_inputs():
    return [torch.randn(21, 37), torch.randint(0, 37, (21,))]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def nll_rows(logits, labels, losses, V, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    v = tl.arange(0, BLOCK)
    x = tl.load(logits + row * V + v, mask=v < V, other=-float("inf"))
    top = tl.max(x, 0)
    lse = tl.log(tl.sum(tl.exp(x - top), 0)) + top
    label = tl.load(labels + row)
    tl.store(losses + row, lse - tl.load(logits + row * V + label))


@triton.jit
def mean_of(values, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out, tl.sum(tl.load(values + i, mask=i < n, other=0.0)) / n)


class ModelNew(torch.nn.Module):
    def forward(self, logits, labels):
        n, v = logits.shape
        losses = torch.empty(n, device=logits.device)
        out = torch.empty([], device=logits.device)
        nll_rows[(n,)](logits, labels, losses, v, BLOCK=triton.next_power_of_2(v))
        mean_of[(1,)](losses, out, n, BLOCK=triton.next_power_of_2(n))
        return out
