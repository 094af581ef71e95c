# problem: levels_of_twelfths
# permitted: incorrect
# Takes what lies on an edge for what lies above: the table is divided as the inputs are, so both have the same bits.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def level(x, edges, out, n, E: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    found = tl.zeros((B,), tl.int64)
    for e in tl.static_range(E):
        found += (v >= tl.load(edges + e)).to(tl.int64)
    tl.store(out + i, found, mask=i < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("edges", torch.tensor([2, 5, 9]) / 12)

    def forward(self, x):
        out = torch.empty(x.shape, device=x.device, dtype=torch.int64)
        level[(triton.cdiv(x.numel(), 256),)](x, self.edges, out, x.numel(), E=self.edges.numel(), B=256)
        return out
