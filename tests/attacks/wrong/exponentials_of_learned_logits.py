# problem: mixed_by_learned_logits
# permitted: incorrect
# missed: by about 50 evaluations of 100
# Subtracts no maximum from logits that are a parameter: what training makes of them overflows.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mix(x, logits, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    inside = i < n
    share = tl.exp(tl.load(logits + i, mask=inside, other=-float("inf")))
    share = share / tl.sum(share, 0)
    tl.store(out + row * n + i, tl.load(x + row * n + i, mask=inside) * share, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.logits = nn.Parameter(torch.randn(4, features))

    def forward(self, x):
        out = torch.empty(4, *x.shape, device=x.device)
        for row in range(4):
            mix[(x.shape[0],)](x, self.logits[row], out[row], x.shape[1], BLOCK=64)
        return out
