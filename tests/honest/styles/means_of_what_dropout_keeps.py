import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, kept):
        return (x * kept).sum(-1) / (kept != 0).sum(-1).clamp(min=1)


def get_inputs():
    return [torch.randn(12, 40), nn.Dropout(0.3)(torch.ones(12, 40))]


def get_init_inputs():
    return []


# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean(x, kept, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + i, mask=i < n, other=0.0)
    factor = tl.load(kept + row * n + i, mask=i < n, other=0.0)
    count = tl.sum((factor != 0).to(tl.float32), 0)
    tl.store(out + row, tl.sum(value * factor, 0) / tl.maximum(count, 1.0))


class ModelNew(nn.Module):
    def forward(self, x, kept):
        rows, n = x.shape
        out = torch.empty(rows, device=x.device)
        mean[(rows,)](x, kept, out, n, BLOCK=triton.next_power_of_2(n))
        return out
