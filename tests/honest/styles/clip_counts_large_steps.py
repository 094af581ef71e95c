import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.limit = limit

    def forward(self, g):
        norm = torch.linalg.vector_norm(g)
        return g * torch.clamp(self.limit / (norm + 1e-6), max=1.0)


def get_inputs():
    return [torch.randn(24, 50)]


def get_init_inputs():
    return [60.0]
# ----- candidate -----
"""Reads norms for its statistics alone; what it launches depends on shapes, and on how often it was called."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sums_of_squares(g_ptr, sums_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(g_ptr + at, mask=at < n, other=0.0)
    tl.store(sums_ptr + tl.program_id(0), tl.sum(g * g, 0))


@triton.jit
def clip(g_ptr, sums_ptr, norm_ptr, out_ptr, n, count, limit, BLOCK: tl.constexpr, COUNT: tl.constexpr):
    of = tl.arange(0, COUNT)
    norm = tl.sqrt(tl.sum(tl.load(sums_ptr + of, mask=of < count, other=0.0), 0))
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(g_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, g * tl.minimum(limit / (norm + 1e-6), 1.0), mask=at < n)
    tl.store(norm_ptr, norm, mask=tl.program_id(0) == 0)


class ModelNew(nn.Module):
    WARM = 4

    def __init__(self, limit):
        super().__init__()
        self.limit = limit
        self.calls = self.large = 0
        self.largest = 0.0
        self.sums = None

    def forward(self, g):
        self.calls += 1
        n = g.numel()
        # Small blocks until it is warm.
        block = 128 if self.calls < self.WARM else 256
        count = triton.cdiv(n, block)
        if self.sums is None or self.sums.numel() < count:
            self.sums = torch.empty(2 * count, device=g.device)
        norm, out = torch.empty(1, device=g.device), torch.empty_like(g)
        sums_of_squares[(count,)](g, self.sums, n, BLOCK=block)
        width = triton.next_power_of_2(count)
        clip[(count,)](g, self.sums, norm, out, n, count, self.limit, BLOCK=block, COUNT=width)
        self.largest = max(self.largest, norm.item())
        self.large += self.largest > self.limit
        return out
