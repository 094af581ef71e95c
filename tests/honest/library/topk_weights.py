import torch
import torch.nn as nn


class Model(nn.Module):
    """The weights of a router: a softmax over the largest scores, in order."""

    def forward(self, scores):
        return torch.softmax(torch.topk(scores, 4, dim=-1).values, dim=-1)


def get_inputs():
    return [torch.randn(12, 20)]


def get_init_inputs():
    return []


# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_of_four(x_ptr, out_ptr, K: tl.constexpr):
    i = tl.program_id(0) * K + tl.arange(0, K)
    x = tl.load(x_ptr + i)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + i, e / tl.sum(e, axis=0))


class ModelNew(nn.Module):
    def forward(self, scores):
        values, _ = torch.topk(scores, 4, dim=-1)
        out = torch.empty_like(values)
        softmax_of_four[(values.shape[0],)](values, out, K=4)
        return out
