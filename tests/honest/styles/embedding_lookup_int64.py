import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)

    def forward(self, ids):
        return self.emb(ids)


def get_inputs():
    return [torch.randint(0, 50, (4, 9))]


def get_init_inputs():
    return [50, 24]
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def lookup(ids, table, out, D, BLOCK: tl.constexpr):
    token = tl.program_id(0)
    row = tl.load(ids + token)
    d = tl.arange(0, BLOCK)
    tl.store(out + token * D + d, tl.load(table + row * D + d, mask=d < D), mask=d < D)


class ModelNew(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)

    def forward(self, ids):
        weight = self.emb.weight
        out = torch.empty(*ids.shape, weight.shape[1], device=weight.device, dtype=weight.dtype)
        lookup[(ids.numel(),)](ids, weight, out, weight.shape[1], BLOCK=triton.next_power_of_2(weight.shape[1]))
        return out
