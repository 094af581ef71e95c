import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.score = nn.Linear(width, heads, bias=False)

    def forward(self, tokens):
        return self.score(tokens).sigmoid()


def get_inputs():
    return [torch.randn(13, 22)]


def get_init_inputs():
    return [22, 9]
# ----- candidate -----
"""Keeps the turned weight until torch says that the weight has changed: by its address and its version."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scored(tokens_ptr, turned_ptr, out_ptr, WIDTH, HEADS, BLOCK: tl.constexpr):
    token = tl.program_id(0)
    head = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for at in range(WIDTH):
        column = tl.load(turned_ptr + at * HEADS + head, mask=head < HEADS, other=0.0)
        total += tl.load(tokens_ptr + token * WIDTH + at) * column
    tl.store(out_ptr + token * HEADS + head, tl.sigmoid(total), mask=head < HEADS)


class ModelNew(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.score = nn.Linear(width, heads, bias=False)
        self._known = None
        self._turned = None

    def _weight(self):
        weight = self.score.weight
        known = (weight.data_ptr(), weight._version)
        if known != self._known:
            self._known, self._turned = known, weight.detach().t().contiguous()
        return self._turned

    def forward(self, tokens):
        tokens = tokens.contiguous()
        heads = self.score.out_features
        out = torch.empty(tokens.shape[0], heads, device=tokens.device, dtype=tokens.dtype)
        scored[(tokens.shape[0],)](tokens, self._weight(), out, tokens.shape[1], heads, BLOCK=triton.next_power_of_2(heads))
        return out
